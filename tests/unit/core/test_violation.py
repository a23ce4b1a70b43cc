"""Violations are told in Nakadi's words, by place; the tests of validation have more of them."""

from typing import Any

import jsonschema_rs
import pytest

from penstock.core.violation import EXTRANEOUS_MAX, LINES_MAX, Told, told_violations
from penstock.core.walk import Schema


def lines(*told: str) -> str:
    return "\n".join(told)


NONE_OF_TWO = "#: no subschema matched out of the total 2 subschemas"
WORDS: dict[str, tuple[Schema, Any, str]] = {
    "minimum": ({"minimum": 5}, 4, "#: 4 is not greater or equal to 5"),
    "minimum, draft 4's exclusive": (
        {"minimum": 5, "exclusiveMinimum": True, "$schema": "http://json-schema.org/draft-04/schema#"},
        5,
        "#: 5 is not greater than 5",
    ),
    "maximum": ({"maximum": 1e30}, 1.5e30, "#: 1.5E30 is not less or equal to 1.0E30"),
    "maximum, draft 4's exclusive": (
        {"maximum": 5, "exclusiveMaximum": True, "$schema": "http://json-schema.org/draft-04/schema#"},
        6.0,
        "#: 6.0 is not less than 5",
    ),
    "exclusiveMinimum": ({"exclusiveMinimum": 5}, -3, "#: -3 is not greater than 5"),
    "exclusiveMaximum": ({"exclusiveMaximum": 5}, 5, "#: 5 is not less than 5"),
    "multipleOf": ({"multipleOf": 0.5}, 0.7, "#: 0.7 is not a multiple of 0.5"),
    "minLength": ({"minLength": 3}, "é\U0001f600", "#: expected minLength: 3, actual: 2"),
    "maxLength": ({"maxLength": 1}, "ab", "#: expected maxLength: 1, actual: 2"),
    "pattern": ({"pattern": "^a"}, 'b"c', '#: string [b"c] does not match pattern ^a'),
    "minItems": ({"minItems": 2}, [1], "#: expected minimum item count: 2, found: 1"),
    "maxItems": ({"maxItems": 1}, [1, 2, 3], "#: expected maximum item count: 1, found: 3"),
    "uniqueItems": ({"uniqueItems": True}, [1, 1], "#: array items are not unique"),
    "contains": ({"contains": {"type": "null"}}, [1], "#: expected at least one array item to match 'contains' schema"),
    "items": ({"items": {"type": "boolean"}}, [True, 1], "#/1: expected type: Boolean, found: Integer"),
    "additionalItems": (
        {"items": [{}], "additionalItems": False},
        [1, 2, 3],
        "#: expected: [1] array items, found: [3]",
    ),
    "additionalItems, a schema": (
        {"items": [{}], "additionalItems": {"type": "string"}},
        [1, 2],
        "#/1: expected type: String, found: Integer",
    ),
    "minProperties": ({"minProperties": 2}, {"a": 1}, "#: minimum size: [2], found: [1]"),
    "maxProperties": ({"maxProperties": 0}, {"a": 1}, "#: maximum size: [0], found: [1]"),
    "additionalProperties": (
        {"properties": {}, "additionalProperties": False},
        {"a": 1},
        "#: extraneous key [a] is not permitted",
    ),
    "patternProperties": (
        {"patternProperties": {"^a": {"type": "number"}}},
        {"a~/b": "x"},
        "#/a~0~1b: expected type: Number, found: String",
    ),
    "required": ({"required": ["a"]}, {}, "#: required key [a] not found"),
    "dependencies": ({"dependencies": {"a": ["b"]}}, {"a": 1}, "#: property [b] is required"),
    "dependencies, a schema": ({"dependencies": {"a": {"required": ["b"]}}}, {"a": 1}, "#: required key [b] not found"),
    "propertyNames": ({"propertyNames": {"maxLength": 1}}, {"a/b": 1}, "#/a~1b: expected maxLength: 1, actual: 3"),
    "propertyNames, within": (
        {"properties": {"o": {"propertyNames": {"anyOf": [{"maxLength": 1}, {"const": "xyz"}]}}}},
        {"o": {"ab": 1}},
        lines(
            "#/o/ab: no subschema matched out of the total 2 subschemas",
            "#/o/ab: expected maxLength: 1, actual: 2",
            "#/o/ab: ab is not xyz, the only valid value",
        ),
    ),
    "type, a text": ({"type": "string"}, 1, "#: expected type: String, found: Integer"),
    "type, a long integer": ({"type": "string"}, 1 << 31, "#: expected type: String, found: Long"),
    "type, a number": ({"type": "integer"}, 1.5, "#: expected type: Integer, found: Double"),
    "type, an object": ({"type": "array"}, {}, "#: expected type: JSONArray, found: JSONObject"),
    "type, a list": ({"type": "object"}, [], "#: expected type: JSONObject, found: JSONArray"),
    "type, null": ({"type": "null"}, True, "#: expected: null, found: Boolean"),
    "type, not null": ({"type": "boolean"}, None, "#: expected type: Boolean, found: Null"),
    "type, several": (
        {"type": ["null", "string"]},
        1,
        lines(NONE_OF_TWO, "#: expected type: String, found: Integer", "#: expected: null, found: Integer"),
    ),
    "enum": ({"enum": ["a", 1]}, "b", "#: b is not a valid enum value"),
    "enum, null": ({"enum": ["a", 1]}, None, "#: null is not a valid enum value"),
    "enum, an object": ({"enum": ["a", 1]}, {"a": [True]}, '#: {"a":[true]} is not a valid enum value'),
    "const": ({"const": 1}, "b", "#: b is not 1, the only valid value"),
    "allOf": ({"allOf": [{"minimum": 1}, {}]}, 0, "#: 0 is not greater or equal to 1"),
    "anyOf": (
        {"properties": {"a": {"anyOf": [{"type": "null"}, {"properties": {"b": {"minimum": 7}}}]}}},
        {"a": {"b": 1}},
        lines(
            "#/a: no subschema matched out of the total 2 subschemas",
            "#/a: expected: null, found: JSONObject",
            "#/a/b: 1 is not greater or equal to 7",
        ),
    ),
    "anyOf, within another": (
        {"anyOf": [{"anyOf": [{"type": "null"}, {"minLength": 2}]}, {"const": 1}]},
        "a",
        lines(
            NONE_OF_TWO,
            NONE_OF_TWO,
            "#: expected: null, found: String",
            "#: expected minLength: 2, actual: 1",
            "#: a is not 1, the only valid value",
        ),
    ),
    "oneOf, none": (
        {"oneOf": [{"type": "null"}, {"minimum": 1}]},
        0,
        "#: 0 subschemas matched instead of one\n#: expected: null, found: Integer\n#: 0 is not greater or equal to 1",
    ),
    "oneOf, several": (
        {"oneOf": [{}, {"type": "null"}, {"minimum": 0}, {}]},
        0,
        lines("#: 3 subschemas matched instead of one", "#: expected: null, found: Integer"),
    ),
    "not": ({"not": {"type": "integer"}}, 0, '#: subject must not be valid against schema {"type":"integer"}'),
    "then": ({"if": {"type": "integer"}, "then": {"minimum": 1}}, 0, "#: 0 is not greater or equal to 1"),
    "else": ({"if": {"type": "null"}, "else": {"minimum": 1}}, 0, "#: 0 is not greater or equal to 1"),
    "false": ({"properties": {"a": False}}, {"a": 1}, "#/a: false schema always fails"),
    "a keyword that Nakadi does not know": (
        {"contentEncoding": "base64"},
        "!",
        '#: it is not compliant with "base64" content encoding',
    ),
    **{
        f"format, {name}": ({"format": name}, "x%:.", f"#: [x%:.] is not a valid {told}")
        for name, told in {
            "date": "date. Expected [yyyy-MM-dd]",
            "email": "email address",
            "hostname": "hostname",
            "ipv4": "ipv4 address",
            "ipv6": "ipv6 address",
            "json-pointer": "JSON pointer",
            "relative-json-pointer": "relative JSON Pointer",
            "time": "time. Expected [HH:mm:ssZ, HH:mm:ss.[0-9]{1,9}Z, HH:mm:ss[+-]HH:mm, HH:mm:ss.[0-9]{1,9}[+-]HH:mm]",
            "uri": "URI",
            "uri-reference": "URI reference",
        }.items()
    },
    "format, regex": ({"format": "regex"}, "(", "#: [(] is not a valid regular expression"),
    "format, uri-template": ({"format": "uri-template"}, "{a", "#: [{a] is not a valid URI template"),
    "format, date-time": (
        {"format": "date-time"},
        "now",
        "#: must be a valid date-time Text 'now' could not be parsed",
    ),
}


def told(schema: Schema, value: Any) -> list[Told]:
    draft = jsonschema_rs.Draft4Validator if "$schema" in schema else jsonschema_rs.Draft7Validator
    validator = draft(schema, validate_formats=True, mask="it", pattern_options=jsonschema_rs.RegexOptions())
    return [each for violation in validator.iter_errors(value) for each in told_violations(violation)]


@pytest.mark.parametrize(("schema", "value", "text"), WORDS.values(), ids=WORDS)
def test_each_keyword_has_its_words(schema: Schema, value: Any, text: str) -> None:
    [violation] = told(schema, value)

    assert "\n".join(violation.lines) == text


def test_members_that_are_too_many_are_told_each_by_itself() -> None:
    found = told({"properties": {}, "additionalProperties": False}, {"b": 1, "a": 2})

    assert sorted(violation.lines for violation in found) == [
        ("#: extraneous key [a] is not permitted",),
        ("#: extraneous key [b] is not permitted",),
    ]


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ({"minimum": 1}, 1),
        ({"type": ["string", "null"]}, 2),
        ({"anyOf": [{"type": ["string", "null"]}, {"minimum": 1}]}, 3),
        ({"oneOf": [{}, {}]}, 1),
        ({"oneOf": [{}, {}, {"minimum": 1}]}, 1),
    ],
    ids=["one", "types", "branches", "fitting branches", "one that does not fit"],
)
def test_a_violation_counts_as_those_of_its_branches(schema: Schema, count: int) -> None:
    [violation] = told(schema, 0)

    assert violation.counts_as == count


@pytest.mark.parametrize("line_end", ["\n", "\r", "\x85", "\u2028", "\x00"], ids=ascii)
def test_a_line_end_within_a_value_or_a_name_is_told_on_one_line(line_end: str) -> None:
    [violation] = told(
        {"properties": {}, "additionalProperties": {"pattern": "^$"}}, {f"a{line_end}b": f"c{line_end}d"}
    )

    [line] = violation.lines
    shown = f"\\u{ord(line_end):04x}"
    assert line == f"#/a{shown}b: string [c{shown}d] does not match pattern ^$"


def test_of_very_many_branches_the_first_are_told() -> None:
    [violation] = told({"anyOf": [{"const": number} for number in range(1, 1_000)]}, 0)

    assert violation.lines[0] == "#: no subschema matched out of the total 999 subschemas"
    assert violation.lines[1] == "#: 0 is not 1, the only valid value"
    assert len(violation.lines) == LINES_MAX


def test_of_branches_within_branches_without_end_the_first_are_told() -> None:
    event: Any = 1
    for _ in range(250):
        event = {"a": event}

    [violation] = told({"anyOf": [{"type": "null"}, {"properties": {"a": {"$ref": "#"}}, "type": "object"}]}, event)

    assert len(violation.lines) == LINES_MAX


def test_of_very_many_members_that_are_too_many_the_first_are_told() -> None:
    found = told({"properties": {}, "additionalProperties": False}, {f"p{number}": 1 for number in range(1_000)})

    assert len(found) == EXTRANEOUS_MAX


@pytest.mark.parametrize(
    "rule", [{"enum": [1]}, {"const": 1}, {"pattern": "^a"}, {"format": "date-time"}, {"format": "email"}], ids=repr
)
def test_a_long_value_is_told_in_part(rule: Schema) -> None:
    [violation] = told({"properties": {"a": rule}}, {"a": "x" * 10_000})

    [line] = violation.lines
    assert line.startswith("#/a: ")
    assert len(line) < 400


LONG = "x" * 900_000


@pytest.mark.parametrize(
    ("rule", "event"),
    [
        ({"required": [LONG]}, {}),
        ({"properties": {}, "additionalProperties": False}, {f"{number}{LONG}": 1 for number in range(EXTRANEOUS_MAX)}),
        ({"additionalProperties": {"type": "null"}}, {LONG: 1}),
        ({"additionalProperties": {"additionalProperties": {"type": "null"}}}, {LONG: {LONG: 1}}),
        ({"additionalProperties": {"pattern": f"^({LONG[:9_000]})?$"}}, {LONG: LONG}),
        ({"properties": {"a": {"type": "array", "items": {"maxLength": 1}}}}, {"a": [LONG]}),
        ({"not": {"description": LONG}}, {}),
        ({"properties": {"a": {"const": LONG}}}, {"a": f"y{LONG}"}),
        ({"dependencies": {"a": [LONG]}}, {"a": 1}),
        ({"propertyNames": {"maxLength": 1}}, {LONG: 1}),
        ({"properties": {"a": {"format": "email"}}}, {"a": "\0" * 10_000}),
    ],
    ids=[
        "missing",
        "too many",
        "a place",
        "a place within",
        "a pattern",
        "a limit",
        "not",
        "a constant",
        "depending",
        "a name",
        "control characters",
    ],
)
def test_what_is_long_is_told_in_part_wherever_it_stands(rule: Schema, event: dict[str, Any]) -> None:
    assert max(len(line) for violation in told(rule, event) for line in violation.lines) < 1_000


def test_the_place_of_what_is_nested_deeply_is_told_in_part() -> None:
    rule: Schema = {"additionalProperties": {"$ref": "#"}, "type": "object"}
    event: Any = 1
    for _ in range(200):
        event = {LONG[:50]: event}

    [violation] = told(rule, event)

    [text] = violation.lines
    assert text.startswith(f"#/{LONG[:50]}/{LONG[:50]}/")
    assert text.endswith(": expected type: JSONObject, found: Integer")
    assert len(text) < 1_200
