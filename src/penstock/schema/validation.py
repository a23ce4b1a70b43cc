"""Validates events by the effective schema of their event type, a batch at a time."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import jsonschema_rs
import msgspec

from penstock.errors import InvalidEventType
from penstock.schema.bounds import (
    APPLIED_MAX,
    MATCH_MAX,
    MeteredPattern,
    begin_matching,
    count_name_bytes,
    find_highest_weight,
    find_most_applied,
    find_most_name_states,
    find_most_text_states,
    matching_failure,
)
from penstock.schema.effective import MOMENT, effective_schema
from penstock.schema.json_text import count_exponents, is_extreme
from penstock.schema.lru_cache import LruCache
from penstock.schema.parsing import dialect, is_empty, parse_schema
from penstock.schema.traversal import Schema, list_nodes, rebuild, redirect_references
from penstock.schema.violations import ViolationReport, cut_lines, report_violation

KEPT_CHARS: Final = 16 << 20
"""Size of the cache of compiled schemas, in characters of their texts."""
COMPILED_CHARS: Final = 2_000
"""Size that each compiled schema counts in addition to its text."""
VIOLATIONS_MAX: Final = 20
"""Upper bound of the lines about the violations of one event, in addition to the line that counts them."""
WORK_MAX: Final = 500_000_000
"""Upper bound of the schemas applied to the values of one event: at the worst some seconds of work."""
_WORK_AT_ONCE: Final = 10_000_000
"""Upper bound of the work on several events that are validated in one call, during which no other thread runs."""
EXTREMES_MAX: Final = 20_000
"""Upper bound of extreme numbers in an event whose schema has `multipleOf`, which takes 20 µs for each."""
_EXTREME_WORK: Final = 5_000
_NUMBER_BYTES_MIN: Final = len("1e50,")
_LIGHT_WORK_MAX: Final = 1_000_000
"""Upper bound of the work that an event loop can do: at the worst some ten milliseconds."""
_LISTING_MAX: Final = 75_000_000
"""Estimated bytes of violations up to which all of them are reported: the validator returns all at once."""
_VIOLATION_BYTES: Final = 1_500
"""Bytes of one violation, without its place and the parts of the schema that it holds."""
_COPY_BYTES: Final = 64
"""Bytes that a byte of an event takes in a copy: each violation of `propertyNames` holds the whole object."""
_HELD: Final = ("enum", "const", "pattern", "not", "required", "dependencies")
"""Keywords whose violations hold parts of the schema."""
_BRANCHING: Final = ("anyOf", "oneOf", "not", "if", "then", "else")


class Validator:
    """Validates the events of one event type."""

    def __init__(self, schema: Schema) -> None:
        """Compile the effective *schema*."""
        schema = rebuild(schema, _spell_out)
        self._schema = schema
        self._passes_all = is_empty({name: value for name, value in schema.items() if name != "type"})
        self._plain = _EventValidator(schema)
        self._many: jsonschema_rs.Validator = _compile(_list_schema(schema))
        self._applied = _find_most_applied(schema)
        self._text_states = find_most_text_states(schema)
        self._name_states = find_most_name_states(schema)
        self._divides = any("multipleOf" in node for _, node in list_nodes(schema))
        self._checks_names = any("propertyNames" in node for _, node in list_nodes(schema))

    def find_first_invalid(self, events: Sequence[dict[str, Any]], raws: Sequence[bytes] = ()) -> int | None:
        """Return the index of the first invalid event; None if all are valid.

        Validating many events in one call takes a third of the time of single calls. The sizes of *raws*, their bytes,
        determine how many are validated in one call without blocking the process for long.
        """
        if self._passes_all:
            return None
        before = 0
        for part, size in self._split(events, raws):
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
        """Return whether `find_first_invalid` on *size* bytes takes so little time that an event loop can call it.

        `explain` always takes too long for that.
        """
        return self._passes_all or self._work(size, size // _NUMBER_BYTES_MIN) <= _LIGHT_WORK_MAX

    def explain(self, event: dict[str, Any]) -> str:
        """Return the violations of *event*, in Nakadi's texts where they exist.

        >>> Validator({"required": ["order_id"]}).explain({})
        '#: required key [order_id] not found'
        """
        size = len(msgspec.json.encode(event))
        if too_long := self._find_excess(event, size):
            return f"#: {too_long}"
        validator = self._event_validator(size)
        begin_matching()
        found = (
            validator.list_violations(event)
            if self._can_list_violations(event, size)
            else validator.find_first_violation(event)
        )
        if too_long := matching_failure():
            return f"#: {too_long}"
        lines = [line for report in found for line in report.lines]
        if len(found) > 1:
            lines.insert(0, f"#: {sum(report.violation_count for report in found)} schema violations found")
        return "\n".join(lines)

    def _is_valid(self, event: dict[str, Any], size: int) -> bool:
        if self._find_excess(event, size):
            return False
        begin_matching()
        return self._event_validator(size).one.is_valid(event) and matching_failure() is None

    def _event_validator(self, size: int) -> "_EventValidator":
        """Return the validator for an event of *size* bytes; it meters patterns if matching can take long."""
        return self._plain if self._text_states * size <= MATCH_MAX else self._metered

    @cached_property
    def _metered(self) -> "_EventValidator":
        return _EventValidator(self._schema, is_metered=True)

    def _find_excess(self, event: dict[str, Any], size: int) -> str | None:
        """Return the reason for which an event takes too long to validate, as far as it is known in advance."""
        if (
            self._applied * _count_values_max(size) > WORK_MAX
            and self._applied * (values := count_values(event)) > WORK_MAX
        ):
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

    def _can_list_violations(self, event: dict[str, Any], size: int) -> bool:
        """Return whether all possible violations of an event of *size* bytes fit into memory."""
        most, held = self._most_violations
        each = (
            _VIOLATION_BYTES + held + measure_longest_place(event) + (_COPY_BYTES * size if self._checks_names else 0)
        )
        return most * count_values(event) * each + self._applied * size <= _LISTING_MAX

    @cached_property
    def _most_violations(self) -> tuple[int, int]:
        """The most violations of one value, missing names included, and the most bytes of the schema in one."""
        held = ({name: node[name] for name in _HELD if name in node} for _, node in list_nodes(self._schema))
        largest = max(len(msgspec.json.encode(each)) for each in held)
        return find_highest_weight(self._schema, lambda node: 1 + _count_names(node)), largest

    def _split(
        self, events: Sequence[dict[str, Any]], raws: Sequence[bytes]
    ) -> Iterator[tuple[Sequence[dict[str, Any]], int]]:
        """Yield the events in parts of bounded work, each with its bytes; a single event can exceed the bound."""
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
        """Return an upper bound of the work on *size* bytes, in applied schemas or work of the same duration."""
        work = self._applied * _count_values_max(size) + (self._text_states + self._name_states) * size
        return work + (_EXTREME_WORK * extremes if self._divides else 0)

    def _count_exponents(self, raw: bytes) -> int:
        return count_exponents(raw) if self._divides else 0


class _EventValidator:
    """A schema compiled to validate single events."""

    def __init__(self, schema: Schema, *, is_metered: bool = False) -> None:
        """Compile *schema*; *is_metered*: count the work of pattern matching, and stop when it is too much."""
        self._schema = schema
        self._is_metered = is_metered
        self.one = _compile(schema, is_metered=is_metered)

    def list_violations(self, event: dict[str, Any]) -> list[ViolationReport]:
        found: dict[ViolationReport, None] = {}
        for violation in self.one.iter_errors(event):
            found.update(dict.fromkeys(report_violation(violation)))
            if sum(len(report.lines) for report in found) >= VIOLATIONS_MAX:
                break
        return cut_lines(found, VIOLATIONS_MAX)

    def find_first_violation(self, event: dict[str, Any]) -> list[ViolationReport]:
        """Return one violation of a large event: finding all of them would take seconds, and gigabytes.

        Violations of branches are not reported, since that would find all violations of each branch.
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
            return _compile(rebuild(self._schema, _drop_branches), is_metered=self._is_metered)
        except (ValueError, jsonschema_rs.ReferencingError):  # A reference leads into a branch.
            return None


def count_values(event: Any) -> int:
    """Return the number of values in *event*, itself included.

    >>> count_values({"a": [1, 2], "b": {}})
    5
    """
    return sum(1 for _ in _values(event))


def count_extremes(event: Any) -> int:
    """Return the number of extreme numbers within *event*.

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


def measure_longest_place(event: Any) -> int:
    """Return the approximate length of the longest JSON pointer to a value within *event*.

    >>> measure_longest_place({"a": [1, {"bc": 2}], "d": {}})
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


class ValidatorKey(NamedTuple):
    """The members of an event type's definition from which the validator of its events follows."""

    schema: str
    """The owner's schema, JSON."""
    name: str
    category: str
    compatible: bool
    compacted: bool

    def compile(self) -> Validator:
        """Return a new validator."""
        schema, name, category, compatible, compacted = self
        given = parse_schema(schema)
        return Validator(
            effective_schema(given, name=name, category=category, compatible=compatible, compacted=compacted)
        )


def validator(key: ValidatorKey) -> Validator:
    """Return the validator of an event type's events, compiled or cached."""
    return VALIDATORS.get(key, len(key.schema) + COMPILED_CHARS, key.compile)


def is_currency(text: str) -> bool:
    """Return whether *text* has the form of a currency code (ISO 4217).

    >>> is_currency("EUR"), is_currency("eur")
    (True, False)
    """
    return len(text) == 3 and text.isascii() and text.isalpha() and text.isupper()


def _compile(schema: Schema, *, is_metered: bool = False) -> jsonschema_rs.Validator:
    return dialect(schema)(
        schema,
        formats={"iso-4217": is_currency, "ISO-4217": is_currency},
        validate_formats=True,
        pattern_options=jsonschema_rs.RegexOptions(),
        keywords={"pattern": MeteredPattern} if is_metered else None,
        offline=True,
        mask="it",
    )


def _find_most_applied(schema: Schema) -> int:
    try:
        return find_most_applied(schema)
    except InvalidEventType:  # The owner's part was checked when it was registered; the rest is small.
        return APPLIED_MAX


def _spell_out(node: Schema) -> Schema:
    """Rewrite keywords so that violations name extraneous members, and limit the digits of date-times."""
    if node.get("additionalProperties") is False:
        node = {"properties": {}} | node
    if node.get("propertyNames") is False:
        node = node | {"propertyNames": {"allOf": [False]}}
    return {"pattern": MOMENT} | node if node.get("format") == "date-time" else node


def _drop_branches(node: Schema) -> Schema:
    return {name: held for name, held in node.items() if name not in _BRANCHING}


def _count_names(node: Schema) -> int:
    """Return the number of names that a value can lack according to *node* itself."""
    depending = [names for names in (node.get("dependencies") or {}).values() if isinstance(names, list)]
    return sum(map(len, [node.get("required") or (), *depending]))


def _count_values_max(size: int) -> int:
    """Return the most values that *size* bytes of JSON can hold."""
    return size // 2 + 1


def _list_schema(schema: Schema) -> Schema:
    """Return the schema of a list of values that *schema* describes."""
    items = redirect_references(schema, lambda reference: "#/items" + reference[1:])
    spoken = {"$schema": items.pop("$schema")} if "$schema" in items else {}
    return {**spoken, "type": "array", "items": items}
