"""The kinds of change between two schemas of an event type, and the version level of each.

Source: the schema evolution of Nakadi (https://nakadi.io/manual.html); see docs/decisions/nakadi-contract.md.
"""

from enum import IntEnum
from typing import Any, Final, Literal, NamedTuple

EvolutionRules = Literal["none", "forward", "compatible", "consumers"]
"""The rules that judge a change: those of a compatibility mode, or of `forward` with the evolution `consumers`."""


class Level(IntEnum):
    """The part of the version number that a change raises."""

    PATCH = 1
    MINOR = 2
    MAJOR = 3


class ChangeKind(NamedTuple):
    """A kind of change."""

    name: str
    text: str
    forward: Level
    """The level in the modes `forward` and `none`; in `none` it only raises the version."""
    compatible: Level
    instead: str | None = None
    """The alternative to a refused change; None: it depends on the place."""


ID: Final = ChangeKind("id", "the id of a schema cannot be changed", Level.MAJOR, Level.MAJOR, "keep it unchanged")
TITLE: Final = ChangeKind("title", "the title differs", Level.PATCH, Level.PATCH, "")
DESCRIPTION: Final = ChangeKind("description", "the description differs", Level.PATCH, Level.PATCH, "")
PROPERTY_ADDED: Final = ChangeKind("property-added", "a property was added", Level.MINOR, Level.MINOR, "")
PROPERTY_REDEFINED: Final = ChangeKind(
    "property-redefined",
    "a property cannot be named that the schema described before without its name",
    Level.MAJOR,
    Level.MAJOR,
)
PROPERTY_REMOVED: Final = ChangeKind(
    "property-removed", "properties cannot be removed", Level.MAJOR, Level.MAJOR, "keep it, and mark it as deprecated"
)
TYPE_CHANGED: Final = ChangeKind("type-changed", "types must be the same", Level.MAJOR, Level.MAJOR)
TYPE_NARROWED: Final = ChangeKind("type-narrowed", "a type cannot be given to what had none", Level.MINOR, Level.MAJOR)
SCHEMA_REMOVED: Final = ChangeKind(
    "schema-removed", "a schema cannot be given to, or taken from, what lies within", Level.MAJOR, Level.MAJOR
)
ITEMS_COUNT: Final = ChangeKind("items-count", "number of items cannot be changed", Level.MAJOR, Level.MAJOR)
ATTRIBUTE: Final = ChangeKind("attribute", "change to attribute value not allowed", Level.MAJOR, Level.MAJOR)
DEFAULT: Final = ChangeKind("default", "the default value cannot be changed", Level.MAJOR, Level.MAJOR)
ENUM: Final = ChangeKind("enum", "enum array changed", Level.MAJOR, Level.MAJOR)
BRANCH_COUNT: Final = ChangeKind(
    "branch-count", "the number of combined schemas cannot be changed", Level.MAJOR, Level.MAJOR
)
COMPOSITION: Final = ChangeKind("composition", "composition method changed", Level.MAJOR, Level.MAJOR)
ONE_OF: Final = ChangeKind(
    "one-of", "a branch of oneOf cannot be changed: events could fit two of them", Level.MAJOR, Level.MAJOR
)
REQUIRED_REDUCED: Final = ChangeKind(
    "required-reduced", "required array changed: a member is missing", Level.MAJOR, Level.MAJOR, "keep it required"
)
REQUIRED_EXTENDED: Final = ChangeKind(
    "required-extended", "required array changed: a member was added", Level.MINOR, Level.MAJOR, "keep it optional"
)
ADDITIONAL_PROPERTIES: Final = ChangeKind(
    "additional-properties", "additionalProperties cannot be changed", Level.MAJOR, Level.MAJOR, "keep it unchanged"
)
ADDITIONAL_PROPERTIES_NARROWED: Final = ChangeKind(
    "additional-properties-narrowed", "additionalProperties cannot be narrowed", Level.MINOR, Level.MAJOR,
    "keep it unchanged",
)  # fmt: skip
ADDITIONAL_ITEMS: Final = ChangeKind(
    "additional-items", "additionalItems cannot be changed", Level.MAJOR, Level.MAJOR, "keep it unchanged"
)
DEPENDENCIES: Final = ChangeKind("dependencies", "dependencies cannot be changed", Level.MAJOR, Level.MAJOR)
REDEFINED_SINCE: Final = ChangeKind(
    "redefined-since",
    "what an earlier version described cannot return as something else",
    Level.MAJOR,
    Level.MAJOR,
)
"""Found by `evolution.judge_history`; all others by comparing two schemas."""

_CONSUMERS_LIST: Final = {
    PROPERTY_REMOVED: "an optional property was removed: compatible for consumers by the event guidelines",
    ENUM: "a value was removed from an enum: compatible for consumers by the event guidelines",
}
"""Changes that the event guidelines call compatible for consumers, and that Nakadi's modes refuse."""


class SchemaDifference(NamedTuple):
    """One difference between two schemas."""

    kind: ChangeKind
    pointer: str
    """JSON pointer into the new schema, or into the old one if the node was removed."""
    old: Any
    new: Any
    producers: bool
    """Whether it is certain that each event valid by the old schema is valid by the new one."""
    consumers: bool
    """Whether it is certain that consumers which know the old schema, and ignore unknown members, can read the new
    events."""
    instead: str
    """The alternative to a refused change; "" if no mode refuses it."""

    @property
    def is_on_consumers_list(self) -> bool:
        """True if the event guidelines call it compatible for consumers, and Nakadi's modes refuse it."""
        return self.consumers and self.kind in _CONSUMERS_LIST and self.old is not None

    def level(self, rules: EvolutionRules) -> Level:
        """Return the part of the version number that it raises by *rules*."""
        if rules == "consumers" and self.is_on_consumers_list:
            return Level.MINOR
        return self.kind.compatible if rules == "compatible" else self.kind.forward

    def describe(self, rules: EvolutionRules) -> str:
        """Return a description of the change, or the reason for its refusal, by *rules*."""
        listed = rules == "consumers" and self.is_on_consumers_list
        return _CONSUMERS_LIST[self.kind] if listed else self.kind.text

    def __str__(self) -> str:
        return f"{self.pointer}: {self.kind.text}"
