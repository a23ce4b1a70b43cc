"""Describes the violations of a schema by an event, in the texts of Nakadi.

The texts are those of Nakadi's JSON Schema library (https://github.com/everit-org/json-schema), keyword by keyword.
docs/reference/http/nakadi.md lists the differences.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import jsonschema_rs
import msgspec

from penstock.schema.effective import MOMENT
from penstock.schema.json_text import java_double
from penstock.schema.traversal import format_pointer

EXTRANEOUS_MAX: Final = 20
"""Upper bound of the extraneous members that are reported."""
LINES_MAX: Final = 20
"""Upper bound of the lines that describe one violation."""
_SHOWN_CHARS: Final = 200
"""Upper bound of the characters shown of a value, and of a name."""
_PLACE_CHARS: Final = 1_000
_RULE_CHARS: Final = 400
_INT: Final = range(-(1 << 31), 1 << 31)
"""The integers that Java represents as Integer; larger ones are Long."""
_NO_LINE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that end a line or are invisible."""
_TYPES: Final = {
    "string": "String", "integer": "Integer", "number": "Number", "boolean": "Boolean",
    "object": "JSONObject", "array": "JSONArray", "null": "null",
}  # fmt: skip
_TYPES_IN_ORDER: Final = [*_TYPES]
_TIME: Final = "HH:mm:ss"
_TIMES: Final = ", ".join(_TIME + rest for rest in ("Z", ".[0-9]{1,9}Z", "[+-]HH:mm", ".[0-9]{1,9}[+-]HH:mm"))
_FORMATS: Final = {
    "date": "date. Expected [yyyy-MM-dd]",
    "email": "email address",
    "ipv4": "ipv4 address",
    "ipv6": "ipv6 address",
    "iso-4217": "alphabetic ISO 4217 currency code",
    "ISO-4217": "alphabetic ISO 4217 currency code",
    "json-pointer": "JSON pointer",
    "regex": "regular expression",
    "relative-json-pointer": "relative JSON Pointer",
    "time": f"time. Expected [{_TIMES}]",
    "uri": "URI",
    "uri-reference": "URI reference",
    "uri-template": "URI template",
}
_OCCURRED_AT: Final = ["metadata", "occurred_at"]
_NONE_FITS: Final = "no subschema matched out of the total {} subschemas"

Said = Mapping[str, Any]
"""The details of a violation that the validator reports, by keyword."""


class ViolationReport(NamedTuple):
    """The description of one violation."""

    lines: tuple[str, ...]
    """The violation; if no branch of a combination fits, also the violations of each branch."""
    violation_count: int
    """The number of violations that it counts as: those of its branches, if these are listed."""


class _Line(NamedTuple):
    text: str
    counts: bool = True


def report_violation(violation: jsonschema_rs.ValidationError) -> list[ViolationReport]:
    """Return the reports of *violation*: one for each extraneous member, up to a limit, otherwise a single one."""
    lines = [*islice(_lines(violation), LINES_MAX)]
    if violation.kind.name == "additionalProperties":
        return [ViolationReport((line.text,), 1) for line in lines]
    return [ViolationReport(tuple(line.text for line in lines), max(1, sum(line.counts for line in lines)))]


def cut_lines(violations: Iterable[ViolationReport], most: int) -> list[ViolationReport]:
    """Return the first reports of *violations*, cut to *most* lines in total.

    >>> cut_lines([ViolationReport(("a", "b"), 1), ViolationReport(("c", "d", "e"), 2)], 4)
    [ViolationReport(lines=('a', 'b'), violation_count=1), ViolationReport(lines=('c', 'd'), violation_count=2)]
    """
    reports: list[ViolationReport] = []
    for each in violations:
        if most <= 0:
            break
        reports.append(each._replace(lines=each.lines[:most]))
        most -= len(each.lines)
    return reports


def _lines(violation: jsonschema_rs.ValidationError) -> Iterator[_Line]:
    """Yield the lines about *violation*, then those about its branches."""
    waiting: list[tuple[jsonschema_rs.ValidationError, list[str]]] = [(violation, [])]
    while waiting:
        each, name = waiting.pop()
        at, said = [*each.instance_path, *name], each.kind.as_dict()
        if each.kind.name == "propertyNames":  # Reported for the member of that name.
            waiting.append((said["error"], [said["error"].instance]))
            continue
        causes = [cause for branch in said.get("context", ()) for cause in branch]
        where = format_pointer(tuple(map(_name_text, at)))[:_PLACE_CHARS]
        if at == _OCCURRED_AT and each.kind.name in ("format", "pattern"):
            yield _Line(f"{where}:must be a valid date-time")
        else:
            first, *others = _texts(each, said)
            has_branches = bool(causes) or (each.kind.name == "type" and bool(others))
            yield _Line(f"{where}: {first}", counts=not has_branches)
            yield from (_Line(f"{where}: {text}") for text in others)
        waiting += ((cause, name) for cause in reversed(causes))


def _texts(violation: jsonschema_rs.ValidationError, details: Said) -> list[str]:
    """Return the texts about the violation itself."""
    name, value = violation.kind.name, violation.instance
    if name == "additionalProperties":
        return [
            f"extraneous key [{_name_text(key)}] is not permitted" for key in details["unexpected"][:EXTRANEOUS_MAX]
        ]
    if name == "type":
        return _types(details["types"], _type_of(value))
    if name == "required" and violation.schema_path[-1] == "dependencies":
        return [f"property [{_name_text(details['property'])}] is required"]
    if name in _SAYINGS:
        return [_SAYINGS[name](value, details)]
    return [violation.message[:_RULE_CHARS]]


def _types(wanted: Sequence[str], type_name: str) -> list[str]:
    """Return the texts about a value of the wrong type; each of several allowed types counts as a branch."""
    names = sorted(wanted, key=_TYPES_IN_ORDER.index)
    texts = [f"expected{'' if name == 'null' else ' type'}: {_TYPES[name]}, found: {type_name}" for name in names]
    return texts if len(texts) == 1 else [_NONE_FITS.format(len(texts)), *texts]


def _format(value: Any, details: Said) -> str:
    if details["format"] == "date-time":
        return f"must be a valid date-time Text '{_java_text(value)}' could not be parsed"
    return f"[{_java_text(value)}] is not a valid {_FORMATS.get(details['format'], _name_text(details['format']))}"


def _pattern(value: Any, details: Said) -> str:
    """Report the pattern; if matching is metered, the message is the pattern: see `MeteredPattern`."""
    pattern = str(details.get("pattern") or details["message"])
    if pattern == MOMENT:
        return _format(value, {"format": "date-time"})
    return f"string [{_java_text(value)}] does not match pattern {pattern[:_RULE_CHARS]}"


def _any_of(_: Any, details: Said) -> str:
    return _NONE_FITS.format(len(details["context"]))


def _one_of(_: Any, details: Said) -> str:
    return f"{sum(not branch for branch in details['context'])} subschemas matched instead of one"


def _not(_: Any, details: Said) -> str:
    return f"subject must not be valid against schema {msgspec.json.encode(details['schema']).decode()[:_RULE_CHARS]}"


def _limit(words: str) -> Callable[[Any, Said], str]:
    """Return a function that reports a value and the limit that it exceeds."""
    return lambda value, said: f"{_java_text(value)} is not {words} {_java_text(said['limit'])}"


def _size(words: str) -> Callable[[Any, Said], str]:
    """Return a function that reports the size of a value and the allowed size."""
    return lambda value, said: words.format(said["limit"], len(value))


_SAYINGS: Final[Mapping[str, Callable[[Any, Said], str]]] = {
    "minimum": _limit("greater or equal to"),
    "maximum": _limit("less or equal to"),
    "exclusiveMinimum": _limit("greater than"),
    "exclusiveMaximum": _limit("less than"),
    "multipleOf": lambda value, said: f"{_java_text(value)} is not a multiple of {_java_text(said['multiple_of'])}",
    "minLength": _size("expected minLength: {}, actual: {}"),
    "maxLength": _size("expected maxLength: {}, actual: {}"),
    "pattern": _pattern,
    "format": _format,
    "minItems": _size("expected minimum item count: {}, found: {}"),
    "maxItems": _size("expected maximum item count: {}, found: {}"),
    "additionalItems": _size("expected: [{}] array items, found: [{}]"),
    "uniqueItems": lambda *_: "array items are not unique",
    "contains": lambda *_: "expected at least one array item to match 'contains' schema",
    "minProperties": _size("minimum size: [{}], found: [{}]"),
    "maxProperties": _size("maximum size: [{}], found: [{}]"),
    "required": lambda _, said: f"required key [{_name_text(said['property'])}] not found",
    "enum": lambda value, _: f"{_java_text(value)} is not a valid enum value",
    "const": lambda value, said: (
        f"{_java_text(value)} is not {_java_text(said['expected_value'])}, the only valid value"
    ),
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "falseSchema": lambda *_: "false schema always fails",
}


def _type_of(value: Any) -> str:
    if type(value) is int:
        return "Integer" if value in _INT else "Long"
    names: dict[type, str] = {str: "String", bool: "Boolean", float: "Double", dict: "JSONObject", list: "JSONArray"}
    return names.get(type(value), "Null")


def _java_text(value: Any) -> str:
    """Return *value* as Java formats it, on one line."""
    if type(value) is float:
        return java_double(value)
    text = value if type(value) is str else str(value) if type(value) is int else msgspec.json.encode(value).decode()
    return _one_line(text)


def _name_text(name: str | int) -> str:
    return _one_line(str(name))


def _one_line(text: str) -> str:
    return _NO_LINE.sub(lambda found: f"\\u{ord(found[0]):04x}", text[:_SHOWN_CHARS])[:_SHOWN_CHARS]
