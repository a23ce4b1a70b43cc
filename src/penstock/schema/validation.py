"""Validates events by the effective schema of their event type, a batch at a time."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import jsonschema_rs
import msgspec

from penstock.errors import InvalidEventType
from penstock.schema.bounds import (
    APPLIED_MAX,
    MATCH_MAX,
    MeteredPattern,
    begin_matching,
    count_name_bytes,
    matching_failure,
    most_applied,
    most_name_states,
    most_text_states,
    most_weight,
)
from penstock.schema.effective import MOMENT, effective_schema
from penstock.schema.json_text import count_exponents, is_extreme
from penstock.schema.lru_cache import LruCache
from penstock.schema.parsing import dialect, is_empty, parse_schema
from penstock.schema.traversal import Schema, nodes, rebuild, redirect_references
from penstock.schema.violations import ViolationReport, first_lines, report_violation

KEPT_CHARS: Final = 16 << 20
"""How large the schemas may be together that a process keeps compiled."""
COMPILED_CHARS: Final = 2_000
"""What even the smallest counts."""
VIOLATIONS_MAX: Final = 20
"""How many lines are told of the violations of one event, beside that which counts them."""
WORK_MAX: Final = 500_000_000
"""How many schemas may be applied to the values of one event: some seconds' work at the very worst."""
_WORK_AT_ONCE: Final = MATCH_MAX
"""The same for events that are looked at together, during which nothing else in the process goes on."""
EXTREMES_MAX: Final = 20_000
"""How many extreme numbers one event may have whose schema has `multipleOf`, which takes 20 µs for each."""
_EXTREME_WORK: Final = _WORK_AT_ONCE // EXTREMES_MAX
_NUMBER_BYTES_MIN: Final = len("1e50,")
_LIGHT_WORK_MAX: Final = 1_000_000
"""The same where even an event loop may look: some ten milliseconds at the very worst."""
_TELLING_MAX: Final = 75_000_000
"""Up to how many bytes of violations all that is wrong with an event is told: they are found all at once."""
_VIOLATION_BYTES: Final = 1_500
"""What one takes, without its place and without what it holds of its schema."""
_COPY_BYTES: Final = 64
"""What a byte of an event can take where it is copied: each name that must not be there holds its whole object."""
_HELD: Final = ("enum", "const", "pattern", "not", "required", "dependencies")
"""Keywords whose violations hold something of the schema."""
_BRANCHING: Final = ("anyOf", "oneOf", "not", "if", "then", "else")


class Validator:
    """What the events of one event type must be."""

    def __init__(self, schema: Schema) -> None:
        """Compile the effective *schema*."""
        schema = rebuild(schema, _spelled_out)
        self._schema = schema
        self._passes_all = is_empty({name: value for name, value in schema.items() if name != "type"})
        self._plain = _Looks(schema)
        self._many: jsonschema_rs.Validator = _compiled(_listed(schema))
        self._applied = _most_applied(schema)
        self._text_states = most_text_states(schema)
        self._name_states = most_name_states(schema)
        self._divides = any("multipleOf" in node for _, node in nodes(schema))
        self._checks_names = any("propertyNames" in node for _, node in nodes(schema))

    def first_invalid(self, events: Sequence[dict[str, Any]], raws: Sequence[bytes] = ()) -> int | None:
        """Return which of *events* is the first that is not valid; None when all are.

        Many are looked at together, which takes a third of what looking at each would: by their bytes, *raws*, it is
        known how many can be without holding up the process.
        """
        if self._passes_all:
            return None
        before = 0
        for part, size in self._parts(events, raws):
            if len(part) == 1:
                if not self._is_valid(part[0], size):
                    return before
            elif not self._many.is_valid(part):
                for at, event in enumerate(part, before):
                    if not self._plain.one.is_valid(event):
                        return at
            before += len(part)
        return None

    def is_light(self, size: int) -> bool:
        """Tell whether finding the first invalid of events of *size* bytes is so little that an event loop may do it.

        To find out what is wrong with it never is.
        """
        return self._passes_all or self._work(size, size // _NUMBER_BYTES_MIN) <= _LIGHT_WORK_MAX

    def why(self, event: dict[str, Any]) -> str:
        """Return what is wrong with *event*, in Nakadi's words where it has some.

        >>> Validator({"required": ["order_id"]}).why({})
        '#: required key [order_id] not found'
        """
        size = len(msgspec.json.encode(event))
        if too_long := self._too_long(event, size):
            return f"#: {too_long}"
        looks = self._looks(size)
        begin_matching()
        found = looks.violations(event) if self._can_be_told(event, size) else looks.first_violation(event)
        if too_long := matching_failure():
            return f"#: {too_long}"
        lines = [line for told in found for line in told.lines]
        if len(found) > 1:
            lines.insert(0, f"#: {sum(told.counts_as for told in found)} schema violations found")
        return "\n".join(lines)

    def _is_valid(self, event: dict[str, Any], size: int) -> bool:
        if self._too_long(event, size):
            return False
        begin_matching()
        return self._looks(size).one.is_valid(event) and matching_failure() is None

    def _looks(self, size: int) -> "_Looks":
        """Return who looks at an event of *size* bytes: with a count of what matching takes where that may be much."""
        return self._plain if self._text_states * size <= MATCH_MAX else self._metered

    @cached_property
    def _metered(self) -> "_Looks":
        return _Looks(self._schema, is_metered=True)

    def _too_long(self, event: dict[str, Any], size: int) -> str | None:
        """Return what of an event of *size* bytes takes too long, as far as that is known before it is looked at."""
        if self._applied * _values_in(size) > WORK_MAX and self._applied * (values := count_values(event)) > WORK_MAX:
            return f"has {values} values, to one of which {self._applied} schemas can apply: that takes too long"
        if self._name_states * size > MATCH_MAX and self._name_states * (names := count_name_bytes(event)) > MATCH_MAX:
            allowed = MATCH_MAX // self._name_states
            return (
                f"has members' names of {names} bytes, where up to {allowed} can be held against "
                f"patternProperties, which have {self._name_states} states"
            )
        if (
            self._divides
            and size > EXTREMES_MAX * _NUMBER_BYTES_MIN
            and (extremes := count_extremes(event)) > EXTREMES_MAX
        ):
            return (
                f"has {extremes} numbers from 1e50 or up to 1e-50, where up to {EXTREMES_MAX} can be held against "
                "multipleOf"
            )
        return None

    def _can_be_told(self, event: dict[str, Any], size: int) -> bool:
        """Tell whether all that can be wrong with an event of *size* bytes fits into memory at once."""
        most, held = self._most_violations
        each = _VIOLATION_BYTES + held + longest_place(event) + (_COPY_BYTES * size if self._checks_names else 0)
        return most * count_values(event) * each + self._applied * size <= _TELLING_MAX

    @cached_property
    def _most_violations(self) -> tuple[int, int]:
        """How many violations one value can have, a name that it lacks being one, and how much one can hold."""
        held = ({name: node[name] for name in _HELD if name in node} for _, node in nodes(self._schema))
        largest = max(len(msgspec.json.encode(each)) for each in held)
        return most_weight(self._schema, lambda node: 1 + _count_names(node)), largest

    def _parts(
        self, events: Sequence[dict[str, Any]], raws: Sequence[bytes]
    ) -> Iterator[tuple[Sequence[dict[str, Any]], int]]:
        """Yield the events in parts, each with its bytes, that are not too much work unless they are a single one."""
        size = sum(map(len, raws))
        if self._work(size, self._count_exponents(b",".join(raws))) <= _WORK_AT_ONCE:
            yield events, size
            return
        start = size = work = 0
        for at, raw in enumerate(raws):
            more = self._work(len(raw), self._count_exponents(raw))
            if at > start and work + more > _WORK_AT_ONCE:
                yield events[start:at], size
                start, size, work = at, 0, 0
            size, work = size + len(raw), work + more
        yield events[start:], size

    def _work(self, size: int, extremes: int) -> int:
        """Return what events of *size* bytes take at most, in schemas that are applied or as much other work."""
        work = self._applied * _values_in(size) + (self._text_states + self._name_states) * size
        return work + (_EXTREME_WORK * extremes if self._divides else 0)

    def _count_exponents(self, raw: bytes) -> int:
        return count_exponents(raw) if self._divides else 0


class _Looks:
    """A schema, compiled for looks at single events."""

    def __init__(self, schema: Schema, *, is_metered: bool = False) -> None:
        """Compile *schema*; *is_metered*: matching is counted, and given up when it takes too long."""
        self._schema = schema
        self._is_metered = is_metered
        self.one = _compiled(schema, is_metered=is_metered)

    def violations(self, event: dict[str, Any]) -> list[ViolationReport]:
        found: dict[ViolationReport, None] = {}
        for violation in self.one.iter_errors(event):
            found.update(dict.fromkeys(report_violation(violation)))
            if sum(len(told.lines) for told in found) >= VIOLATIONS_MAX:
                break
        return first_lines(found, VIOLATIONS_MAX)

    def first_violation(self, event: dict[str, Any]) -> list[ViolationReport]:
        """Return one violation of a large event: to find all would take seconds, and gigabytes.

        Those of branches are not looked for: all that is wrong with each branch would be found for that.
        """
        try:
            if self._unbranched is not None:
                self._unbranched.validate(event)
        except jsonschema_rs.ValidationError as violation:
            return report_violation(violation)
        if self._is_metered:  # The violation can be that a branch takes too long.
            begin_matching()
            self.one.is_valid(event)
        return [ViolationReport(("#: is not what the schema allows; the event is too large to find out where",), 1)]

    @cached_property
    def _unbranched(self) -> jsonschema_rs.Validator | None:
        try:
            return _compiled(rebuild(self._schema, _without_branches), is_metered=self._is_metered)
        except (ValueError, jsonschema_rs.ReferencingError):  # A reference leads into a branch.
            return None


def count_values(event: Any) -> int:
    """Return how many values *event* consists of, itself included.

    >>> count_values({"a": [1, 2], "b": {}})
    5
    """
    return sum(1 for _ in _values(event))


def count_extremes(event: Any) -> int:
    """Return how many numbers within *event* are extreme.

    >>> count_extremes({"a": [1e300, 1], "b": {"c": -1e-300}})
    2
    """
    return sum(is_extreme(value) for value in _values(event) if type(value) is float)


def _values(event: Any) -> Iterator[Any]:
    waiting = [event]
    while waiting:
        value = waiting.pop()
        yield value
        if type(value) is dict:
            waiting += value.values()
        elif type(value) is list:
            waiting += value


def longest_place(event: Any) -> int:
    """Return about how many characters the longest JSON pointer to a value within *event* has.

    >>> longest_place({"a": [1, {"bc": 2}], "d": {}})
    9
    """
    longest, waiting = 0, [(0, event)]
    while waiting:
        length, value = waiting.pop()
        longest = max(longest, length)
        if type(value) is dict:
            waiting += ((length + len(name) + 1, each) for name, each in value.items())
        elif type(value) is list:
            waiting += ((length + 4, each) for each in value)
    return longest


VALIDATORS: Final = LruCache[Validator](KEPT_CHARS)


def validator(text: str, *, name: str, category: str, compatible: bool, compacted: bool) -> Validator:
    """Return who validates the events of an event type whose owner has given it the schema *text*."""

    def compiled() -> Validator:
        given = parse_schema(text)
        how = {"compatible": compatible, "compacted": compacted}
        return Validator(effective_schema(given, name=name, category=category, **how))

    return VALIDATORS.get((text, name, category, compatible, compacted), len(text) + COMPILED_CHARS, compiled)


def compiled_validator(text: str, *, name: str, category: str, compatible: bool, compacted: bool) -> Validator | None:
    """Return the same where it is compiled already, else None."""
    return VALIDATORS.find((text, name, category, compatible, compacted))


def is_currency(text: str) -> bool:
    """Tell whether *text* has the form of a currency's code (ISO 4217).

    >>> is_currency("EUR"), is_currency("eur")
    (True, False)
    """
    return len(text) == 3 and text.isascii() and text.isalpha() and text.isupper()


def _compiled(schema: Schema, *, is_metered: bool = False) -> jsonschema_rs.Validator:
    return dialect(schema)(
        schema,
        formats={"iso-4217": is_currency, "ISO-4217": is_currency},
        validate_formats=True,
        pattern_options=jsonschema_rs.RegexOptions(),
        keywords={"pattern": MeteredPattern} if is_metered else None,
        offline=True,
        mask="it",
    )


def _most_applied(schema: Schema) -> int:
    try:
        return most_applied(schema)
    except InvalidEventType:  # The owner's part was checked when it was registered; the rest is small.
        return APPLIED_MAX


def _spelled_out(node: Schema) -> Schema:
    """Let what is one member too many be told by its name, and moments have no more digits than readers keep."""
    if node.get("additionalProperties") is False:
        node = {"properties": {}} | node
    if node.get("propertyNames") is False:
        node = node | {"propertyNames": {"allOf": [False]}}
    return {"pattern": MOMENT} | node if node.get("format") == "date-time" else node


def _without_branches(node: Schema) -> Schema:
    return {name: held for name, held in node.items() if name not in _BRANCHING}


def _count_names(node: Schema) -> int:
    """Return how many names a value can lack by *node* itself."""
    depending = [names for names in (node.get("dependencies") or {}).values() if isinstance(names, list)]
    return sum(map(len, [node.get("required") or (), *depending]))


def _values_in(size: int) -> int:
    """Return how many values *size* bytes of JSON can have at most."""
    return size // 2 + 1


def _listed(schema: Schema) -> Schema:
    """Return the schema of a list of what *schema* describes."""
    items = redirect_references(schema, lambda reference: "#/items" + reference[1:])
    spoken = {"$schema": items.pop("$schema")} if "$schema" in items else {}
    return {**spoken, "type": "array", "items": items}
