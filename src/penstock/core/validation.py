"""Validates events by the effective schema of their event type, a batch at a time."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import jsonschema_rs
import msgspec

from penstock.core.effective import effective_schema
from penstock.core.schema import dialect, is_empty, parse_schema
from penstock.core.shelf import Shelf
from penstock.core.unfolding import APPLIED_MAX, most_applied
from penstock.core.violation import violation_texts
from penstock.core.walk import Schema, rebuilt, redirected
from penstock.errors import InvalidEventType

KEPT_CHARS: Final = 16 << 20
"""How large the schemas may be together that a process keeps compiled."""
COMPILED_CHARS: Final = 2_000
"""What even the smallest counts."""
VIOLATIONS_MAX: Final = 20
"""How many violations of one event are told."""
WORK_MAX: Final = 500_000_000
"""How many schemas may be applied to the values of one event: some seconds' work at the very worst."""
_WORK_AT_ONCE: Final = 100_000_000
"""The same for events that are looked at together, during which nothing else in the process goes on."""
_TELLING_MAX: Final = 5_000_000
"""Up to how much work, where a value counts as a hundred bytes, all that is wrong with an event is told."""
_VALUE_BYTES: Final = 100
_BRANCHING: Final = ("anyOf", "oneOf", "not", "if", "then", "else")


class Validator:
    """What the events of one event type must be."""

    def __init__(self, schema: Schema) -> None:
        """Compile the effective *schema*."""
        schema = rebuilt(schema, _naming)
        self._schema = schema
        self._passes_all = is_empty({name: value for name, value in schema.items() if name != "type"})
        self._one = _compiled(schema)
        self._many: jsonschema_rs.Validator = _compiled(_listed(schema))
        self._applied = _most_applied(schema)

    def first_invalid(self, events: Sequence[dict[str, Any]], raws: Sequence[bytes] = ()) -> int | None:
        """Return which of *events* is the first that is not valid; None when all are.

        Many are looked at together, which takes a third of what looking at each would: by their bytes, *raws*, it is
        known how many can be without holding up the process.
        """
        if self._passes_all:
            return None
        before = 0
        for part, size in self._parts(events, raws):
            if len(part) == 1 and self._takes_too_long(part[0], size):
                return before
            if not self._many.is_valid(part):
                for at, event in enumerate(part, before):
                    if not self._one.is_valid(event):
                        return at
            before += len(part)
        return None

    def why(self, event: dict[str, Any]) -> str:
        """Return what is wrong with *event*, in Nakadi's words where it has some (digest of its contract, 3.4).

        >>> Validator({"required": ["order_id"]}).why({})
        '#: required key [order_id] not found'
        """
        values, size = count_values(event), len(msgspec.json.encode(event))
        if self._applied * values > WORK_MAX:
            return f"#: has {values} values, to one of which {self._applied} schemas can apply: that takes too long"
        if self._applied * (values * _VALUE_BYTES + size) > _TELLING_MAX:
            texts = self._first_violation(event)
        else:
            texts = self._violations(event)
        if len(texts) == 1:
            return texts[0]
        return "\n".join([f"#: {len(texts)} schema violations found", *texts])

    def _takes_too_long(self, event: dict[str, Any], size: int) -> bool:
        return self._applied * _values_in(size) > WORK_MAX and self._applied * count_values(event) > WORK_MAX

    def _parts(
        self, events: Sequence[dict[str, Any]], raws: Sequence[bytes]
    ) -> Iterator[tuple[Sequence[dict[str, Any]], int]]:
        """Yield the events in parts, each with its bytes, that are not too much work unless they are a single one."""
        size = sum(map(len, raws))
        if self._applied * _values_in(size) <= _WORK_AT_ONCE:
            yield events, size
            return
        start = size = 0
        for at, raw in enumerate(raws):
            if at > start and self._applied * _values_in(size + len(raw)) > _WORK_AT_ONCE:
                yield events[start:at], size
                start, size = at, 0
            size += len(raw)
        yield events[start:], size

    def _violations(self, event: dict[str, Any]) -> list[str]:
        found: dict[str, None] = {}
        for violation in self._one.iter_errors(event):
            found.update(dict.fromkeys(violation_texts(violation)))
            if len(found) >= VIOLATIONS_MAX:
                break
        return [*found][:VIOLATIONS_MAX]

    def _first_violation(self, event: dict[str, Any]) -> list[str]:
        """Return one violation of a large event: to find all would take seconds, and gigabytes.

        Those of branches are not looked for: all that is wrong with each branch would be found for that.
        """
        try:
            if self._unbranched is not None:
                self._unbranched.validate(event)
        except jsonschema_rs.ValidationError as violation:
            return violation_texts(violation)[:VIOLATIONS_MAX]
        return ["#: is not what the schema allows; the event is too large to find out where"]

    @cached_property
    def _unbranched(self) -> jsonschema_rs.Validator | None:
        try:
            return _compiled(rebuilt(self._schema, _without_branches))
        except (ValueError, jsonschema_rs.ReferencingError):  # It refers to what stands in a branch.
            return None


def count_values(event: Any) -> int:
    """Return how many values *event* consists of, itself included.

    >>> count_values({"a": [1, 2], "b": {}})
    5
    """
    count, waiting = 0, [event]
    while waiting:
        value = waiting.pop()
        count += 1
        if type(value) is dict:
            waiting += value.values()
        elif type(value) is list:
            waiting += value
    return count


_KEPT: Final = Shelf[Validator](KEPT_CHARS)


def validator(text: str, *, name: str, category: str, compatible: bool, compacted: bool) -> Validator:
    """Return who validates the events of an event type whose owner has given it the schema *text*."""

    def compiled() -> Validator:
        given = parse_schema(text)
        how = {"compatible": compatible, "compacted": compacted}
        return Validator(effective_schema(given, name=name, category=category, **how))

    return _KEPT.get((text, name, category, compatible, compacted), len(text) + COMPILED_CHARS, compiled)


def is_currency(text: str) -> bool:
    """Tell whether *text* has the form of a currency's code (ISO 4217).

    >>> is_currency("EUR"), is_currency("eur")
    (True, False)
    """
    return len(text) == 3 and text.isascii() and text.isalpha() and text.isupper()


def _compiled(schema: Schema) -> jsonschema_rs.Validator:
    return dialect(schema)(
        schema,
        formats={"iso-4217": is_currency, "ISO-4217": is_currency},
        validate_formats=True,
        pattern_options=jsonschema_rs.RegexOptions(),
        offline=True,
        mask="it",
    )


def _most_applied(schema: Schema) -> int:
    try:
        return most_applied(schema)
    except InvalidEventType:  # Its owner's part was let in, and what a hub adds is little.
        return APPLIED_MAX


def _naming(node: Schema) -> Schema:
    """Let what is one member too many be told by its name."""
    return {"properties": {}} | node if node.get("additionalProperties") is False else node


def _without_branches(node: Schema) -> Schema:
    return {name: held for name, held in node.items() if name not in _BRANCHING}


def _values_in(size: int) -> int:
    """Return how many values *size* bytes of JSON can have at most."""
    return size // 2 + 1


def _listed(schema: Schema) -> Schema:
    """Return the schema of a list of what *schema* describes."""
    items = redirected(schema, lambda reference: "#/items" + reference[1:])
    spoken = {"$schema": items.pop("$schema")} if "$schema" in items else {}
    return {**spoken, "type": "array", "items": items}
