"""Judge a change of an event type's schema: its version level, and its effect on producers and on consumers.

Each difference between the two schemas has a level by the compatibility mode, and a mode refuses some of them:
Nakadi's table, see docs/decisions/nakadi-contract.md. Apart from the level, two facts are reported where they are
certain:

- Producers can stay as they are: every event that was valid before is still valid.
- Consumers can stay as they are: every event of the new schema is valid by the old one, once the members that the old
  one does not know are left out. The event guideline on backward compatibility is about this.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from penstock.schema.changes import (
    ADDITIONAL_ITEMS,
    ADDITIONAL_PROPERTIES,
    ADDITIONAL_PROPERTIES_NARROWED,
    DESCRIPTION,
    PROPERTY_ADDED,
    REDEFINED_SINCE,
    REQUIRED_EXTENDED,
    TITLE,
    TYPE_NARROWED,
    EvolutionRules,
    Level,
    SchemaDifference,
)
from penstock.schema.comparison import compare
from penstock.schema.traversal import Schema

ON_THE_WAY_TO_COMPATIBLE: Final = frozenset(
    [TITLE, DESCRIPTION, PROPERTY_ADDED, REQUIRED_EXTENDED, ADDITIONAL_PROPERTIES, ADDITIONAL_ITEMS]
)
"""Changes that are allowed together with the change of the mode from `forward` to `compatible`."""
_DESCRIBING: Final = frozenset([PROPERTY_ADDED, ADDITIONAL_PROPERTIES_NARROWED, TYPE_NARROWED])
"""Changes that describe values which an earlier version can have described differently."""
_INSTEAD: Final = "set `options.evolution` to `consumers`, which allows it"

CHANGES_MAX: Final = 100
"""Upper bound of the reported changes."""
REASONS_MAX: Final = 20
"""Upper bound of the refused changes in one error text."""
VALUE_CHARS_MAX: Final = 4_000
"""Old and new values are reported in full up to this many characters of JSON, longer ones are cut."""


class EvolutionVerdict(NamedTuple):
    """The effect of a change of schema."""

    changes: Sequence[SchemaDifference]
    refused: Sequence[SchemaDifference]
    level: Level
    """The highest level of all changes; PATCH if only the text differs."""
    closes: bool = False
    """Whether the new mode refuses members that no schema names, and the old mode did not."""

    @property
    def producers(self) -> bool:
        """True if it is certain that producers need not change."""
        return not self.closes and all(change.producers for change in self.changes)

    @property
    def consumers(self) -> bool:
        """True if it is certain that consumers need not change, given that events have only named members."""
        return all(change.consumers for change in self.changes)


NOTHING_CHANGES: Final = EvolutionVerdict((), (), Level.PATCH)


def judge(old: Schema, new: Schema, mode: EvolutionRules, new_mode: EvolutionRules | None = None) -> EvolutionVerdict:
    """Return the verdict on the change from schema *old* to *new* in *mode*, and possibly to *new_mode* as well.

    >>> verdict = judge({"properties": {"a": {}}}, {"properties": {}}, "compatible")
    >>> [str(change) for change in verdict.refused]
    ['#/properties/a: properties cannot be removed']
    >>> judge({"properties": {"a": {}}}, {"properties": {}}, "consumers").refused
    []
    """
    changes = compare(old, new, closes=mode == new_mode == "compatible" or (mode == "compatible" and not new_mode))
    level = max((change.level(mode) for change in changes), default=Level.PATCH)
    if mode in ("forward", "consumers") and new_mode == "compatible":
        refused = [change for change in changes if change.kind not in ON_THE_WAY_TO_COMPATIBLE]
    elif mode == "none":
        refused = []
    else:
        refused = [change for change in changes if change.level(mode) == Level.MAJOR]
    return EvolutionVerdict(changes, refused, level, closes=mode != "compatible" and new_mode == "compatible")


def judge_history(verdict: EvolutionVerdict, new: Schema, earlier: Iterable[tuple[str, Schema]]) -> EvolutionVerdict:
    """Add to *verdict* the places that *new* describes differently from an *earlier* version; these are refused.

    A property that was removed can return, but consumers of the earlier version still exist. *earlier* are the versions
    before the last one with the same major number; they are read only if the change describes something new.
    """
    if not any(change.kind in _DESCRIBING for change in verdict.changes):
        return verdict
    found: dict[str, SchemaDifference] = {}
    for version, schema in earlier:
        for change in judge(schema, new, "consumers").refused:
            instead = f"let it be as it was in version {version}, or give it another name"
            again = SchemaDifference(REDEFINED_SINCE, change.pointer, change.old, change.new, False, False, instead)
            found.setdefault(change.pointer, again)
    more = [*found.values()]
    return verdict._replace(changes=[*verdict.changes, *more], refused=[*verdict.refused, *more])


def describe_changes(verdict: EvolutionVerdict, rules: EvolutionRules) -> list[dict[str, Any]]:
    """Return the changes for an error or a response; if there are more than 100, the refused ones first."""
    refused = set(map(id, verdict.refused))
    changes = verdict.changes
    if len(changes) > CHANGES_MAX:
        changes = sorted(changes, key=lambda change: id(change) not in refused)[:CHANGES_MAX]
    return [
        {
            "pointer": change.pointer,
            "rule": change.kind.name,
            "says": change.describe(rules),
            "level": change.level(rules).name,
            "old": _shorten(change.old),
            "new": _shorten(change.new),
            "refused": id(change) in refused,
            "instead": _alternative(change, rules),
            "producers": change.producers,
            "consumers": change.consumers,
        }
        for change in changes
    ]


def explain_refusal(verdict: EvolutionVerdict) -> str:
    """Return the reasons of the refused changes: the first 20, and the number of the others."""
    reasons = [_cut(str(change)) for change in verdict.refused[:REASONS_MAX]]
    more = len(verdict.refused) - len(reasons)
    return ", ".join([*reasons, f"and {more} more"] if more else reasons)


def _alternative(change: SchemaDifference, rules: EvolutionRules) -> str:
    if not change.is_on_consumers_list or rules not in ("forward", "consumers"):
        return change.instead
    return f"{change.instead}; or {_INSTEAD}" if rules == "forward" else ""


def _shorten(value: Any) -> Any:
    text = msgspec.json.encode(value).decode()
    return value if len(text) <= VALUE_CHARS_MAX else _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"


def raise_version(version: str, level: Level) -> str:
    """Return *version* with the part of *level* raised.

    >>> raise_version("1.4.2", Level.MINOR), raise_version("1.4.2", Level.MAJOR)
    ('1.5.0', '2.0.0')
    """
    major, minor, patch = map(int, version.split("."))
    if level == Level.MAJOR:
        return f"{major + 1}.0.0"
    return f"{major}.{minor + 1}.0" if level == Level.MINOR else f"{major}.{minor}.{patch + 1}"
