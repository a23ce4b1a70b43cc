"""Violations of a schema, reported in Nakadi's words, by place, and short whatever the event."""

import re
from typing import Any

import pytest

from penstock.schema.validation import VIOLATIONS_MAX, Validator, ValidatorKey, validator
from penstock.schema.violations import EXTRANEOUS_MAX, LINES_MAX
from tests.unit.schema.nodes import Schema, draft

NONE_OF_TWO = "#: no subschema matched out of the total 2 subschemas"


def lines(*said: str) -> str:
    return "\n".join(said)


WORDS: dict[str, tuple[Schema, Any, str]] = {
    "minimum": ({"minimum": 5}, 4, "#: 4 is not greater or equal to 5"),
    "minimum, draft 4's exclusive": ({"minimum": 5, "exclusiveMinimum": True,
        "$schema": "http://json-schema.org/draft-04/schema#"}, 5, "#: 5 is not greater than 5"),
    "maximum": ({"maximum": 1e30}, 1.5e30, "#: 1.5E30 is not less or equal to 1.0E30"),
    "maximum, draft 4's exclusive": ({"maximum": 5, "exclusiveMaximum": True,
        "$schema": "http://json-schema.org/draft-04/schema#"}, 6.0, "#: 6.0 is not less than 5"),
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
    "additionalItems": ({"items": [{}], "additionalItems": False}, [1, 2, 3],
        "#: expected: [1] array items, found: [3]"),
    "additionalItems, a schema": ({"items": [{}], "additionalItems": {"type": "string"}}, [1, 2],
        "#/1: expected type: String, found: Integer"),
    "minProperties": ({"minProperties": 2}, {"a": 1}, "#: minimum size: [2], found: [1]"),
    "maxProperties": ({"maxProperties": 0}, {"a": 1}, "#: maximum size: [0], found: [1]"),
    "additionalProperties": ({"properties": {}, "additionalProperties": False}, {"a": 1},
        "#: extraneous key [a] is not permitted"),
    "patternProperties": ({"patternProperties": {"^a": {"type": "number"}}}, {"a~/b": "x"},
        "#/a~0~1b: expected type: Number, found: String"),
    "required": ({"required": ["a"]}, {}, "#: required key [a] not found"),
    "dependencies": ({"dependencies": {"a": ["b"]}}, {"a": 1}, "#: property [b] is required"),
    "dependencies, a schema": ({"dependencies": {"a": {"required": ["b"]}}}, {"a": 1}, "#: required key [b] not found"),
    "propertyNames": ({"propertyNames": {"maxLength": 1}}, {"a/b": 1}, "#/a~1b: expected maxLength: 1, actual: 3"),
    "propertyNames, within": ({"properties": {"o": {"propertyNames": {"anyOf": [{"maxLength": 1}, {"const": "xyz"}]}}}},
        {"o": {"ab": 1}}, lines("#/o/ab: no subschema matched out of the total 2 subschemas",
        "#/o/ab: expected maxLength: 1, actual: 2", "#/o/ab: ab is not xyz, the only valid value")),
    "type, a text": ({"type": "string"}, 1, "#: expected type: String, found: Integer"),
    "type, a long integer": ({"type": "string"}, 1 << 31, "#: expected type: String, found: Long"),
    "type, a number": ({"type": "integer"}, 1.5, "#: expected type: Integer, found: Double"),
    "type, an object": ({"type": "array"}, {}, "#: expected type: JSONArray, found: JSONObject"),
    "type, a list": ({"type": "object"}, [], "#: expected type: JSONObject, found: JSONArray"),
    "type, null": ({"type": "null"}, True, "#: expected: null, found: Boolean"),
    "type, not null": ({"type": "boolean"}, None, "#: expected type: Boolean, found: Null"),
    "type, several": ({"type": ["null", "string"]}, 1,
        lines(NONE_OF_TWO, "#: expected type: String, found: Integer", "#: expected: null, found: Integer")),
    "enum": ({"enum": ["a", 1]}, "b", "#: b is not a valid enum value"),
    "enum, null": ({"enum": ["a", 1]}, None, "#: null is not a valid enum value"),
    "enum, an object": ({"enum": ["a", 1]}, {"a": [True]}, '#: {"a":[true]} is not a valid enum value'),
    "const": ({"const": 1}, "b", "#: b is not 1, the only valid value"),
    "allOf": ({"allOf": [{"minimum": 1}, {}]}, 0, "#: 0 is not greater or equal to 1"),
    "anyOf": ({"properties": {"a": {"anyOf": [{"type": "null"}, {"properties": {"b": {"minimum": 7}}}]}}},
        {"a": {"b": 1}}, lines("#/a: no subschema matched out of the total 2 subschemas",
        "#/a: expected: null, found: JSONObject", "#/a/b: 1 is not greater or equal to 7")),
    "anyOf, within another": ({"anyOf": [{"anyOf": [{"type": "null"}, {"minLength": 2}]}, {"const": 1}]}, "a",
        lines(NONE_OF_TWO, NONE_OF_TWO, "#: expected: null, found: String", "#: expected minLength: 2, actual: 1",
        "#: a is not 1, the only valid value")),
    "oneOf, none": ({"oneOf": [{"type": "null"}, {"minimum": 1}]}, 0,
        "#: 0 subschemas matched instead of one\n#: expected: null, found: Integer\n#: 0 is not greater or equal to 1"),
    "oneOf, several": ({"oneOf": [{}, {"type": "null"}, {"minimum": 0}, {}]}, 0,
        lines("#: 3 subschemas matched instead of one", "#: expected: null, found: Integer")),
    "not": ({"not": {"type": "integer"}}, 0, '#: subject must not be valid against schema {"type":"integer"}'),
    "then": ({"if": {"type": "integer"}, "then": {"minimum": 1}}, 0, "#: 0 is not greater or equal to 1"),
    "else": ({"if": {"type": "null"}, "else": {"minimum": 1}}, 0, "#: 0 is not greater or equal to 1"),
    "false": ({"properties": {"a": False}}, {"a": 1}, "#/a: false schema always fails"),
    "a keyword that Nakadi does not know": ({"contentEncoding": "base64"}, "!",
        '#: it is not compliant with "base64" content encoding'),
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
    "format, date-time": ({"format": "date-time"}, "now",
        "#: must be a valid date-time Text 'now' could not be parsed"),
    "format, digits of a moment": ({"format": "date-time"}, "2026-01-02T03:04:05.1234567890Z",
        "#: must be a valid date-time Text '2026-01-02T03:04:05.1234567890Z' could not be parsed"),
    **{f"format, currency of {code}": ({"format": "iso-4217"}, code,
        f"#: [{code}] is not a valid alphabetic ISO 4217 currency code") for code in ("eur", "E1R", "ÉUR", "EURO")},
    "pattern of the owner for a moment": ({"format": "date-time", "pattern": "Z$"}, "2026-01-02T03:04:05+01:00",
        "#: string [2026-01-02T03:04:05+01:00] does not match pattern Z$"),
    "propertyNames, false": ({"propertyNames": False}, {"a": 1}, "#/a: false schema always fails"),
    "deep": ({"properties": {"a": {"items": {"required": ["b/c"]}}}}, {"a": [{"b/c": 1}, {}]},
        "#/a/1: required key [b/c] not found"),
    "occurred_at": ({"properties": {"metadata": {"properties": {"occurred_at": {"format": "date-time"}}}}},
        {"metadata": {"occurred_at": "now"}}, "#/metadata/occurred_at:must be a valid date-time"),
    "two": ({"required": ["n"], "additionalProperties": False}, {"m": 1},
        lines("#: 2 schema violations found", "#: extraneous key [m] is not permitted",
        "#: required key [n] not found")),
    "branches beside another": (
        {"required": ["n"], "properties": {"m": {"type": ["string", "null"]}}},
        {"m": 1},
        lines(
            "#: 3 schema violations found",
            "#/m: expected type: String, found: Integer",
            "#/m: expected: null, found: Integer",
            "#/m: no subschema matched out of the total 2 subschemas",
            "#: required key [n] not found",
        ),
    ),
    "two extraneous members": ({"additionalProperties": False}, {"b": 1, "a": 2},
        lines("#: 2 schema violations found", "#: extraneous key [a] is not permitted",
        "#: extraneous key [b] is not permitted")),
}  # fmt: skip


def words(schema: Schema, value: Any) -> str:
    return Validator(draft(7) | schema).explain(value)


@pytest.mark.parametrize(("schema", "value", "text"), WORDS.values(), ids=WORDS)
def test_violation_is_reported_in_the_words_of_its_keyword(schema: Schema, value: Any, text: str) -> None:
    found = words(schema, value)

    if "violations found" in text:
        first, *others = found.splitlines()
        found = lines(first, *sorted(others))
    assert found == text


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
def test_violation_counts_as_those_of_its_branches(schema: Schema, count: int) -> None:
    found = words({"required": ["b"], "properties": {"a": schema}}, {"a": 0})

    assert found.splitlines()[0] == f"#: {count + 1} schema violations found"


def test_line_end_within_a_value_or_a_name_is_escaped() -> None:
    for line_end in ["\n", "\r", "\x85", "\u2028", "\x00"]:
        found = words({"additionalProperties": {"pattern": "^$"}}, {f"a{line_end}b": f"c{line_end}d"})

        shown = f"\\u{ord(line_end):04x}"
        assert found == f"#/a{shown}b: string [c{shown}d] does not match pattern ^$"


def test_violations_of_many_branches_are_reported_in_part() -> None:
    of_many = words({"anyOf": [{"const": number} for number in range(1, 1_000)]}, 0).splitlines()

    assert of_many[0] == "#: no subschema matched out of the total 999 subschemas"
    assert of_many[1] == "#: 0 is not 1, the only valid value"
    assert len(of_many) == LINES_MAX

    event: Any = 1
    for _ in range(250):
        event = {"a": event}
    nested = {"anyOf": [{"type": "null"}, {"properties": {"a": {"$ref": "#"}}, "type": "object"}]}
    assert len(words(nested, event).splitlines()) == LINES_MAX


def test_violations_of_many_values_are_reported_in_part() -> None:
    branches = {"anyOf": [{"enum": [number]} for number in range(1, 8)]}
    first, *others = words({"additionalProperties": branches}, {f"p{number}": 0 for number in range(10)}).splitlines()
    assert len(others) == VIOLATIONS_MAX
    assert others[0].endswith("no subschema matched out of the total 7 subschemas")
    assert first == "#: 21 schema violations found"

    mistakes = words({"additionalProperties": {"type": "string"}}, {f"p{n}": n for n in range(10_000)})
    assert len(mistakes.splitlines()) <= VIOLATIONS_MAX + 1
    extraneous = words({"additionalProperties": False}, {f"p{number}": 1 for number in range(1_000)})
    assert len(extraneous.splitlines()) == EXTRANEOUS_MAX + 1


def test_all_violations_of_an_ordinary_event_are_reported() -> None:
    line = {"properties": {"sku": {"type": "string"}, "price": {"type": "number"}}, "required": ["sku", "price"]}
    event = {"lines": [{"sku": str(number), "price": 1} for number in range(1_000)]}
    for wrong in (0, 500, 999):
        event["lines"][wrong] = {"sku": 1}

    found = words({"properties": {"lines": {"type": "array", "items": line}}}, event)

    assert found.splitlines()[0] == "#: 6 schema violations found"


def test_long_value_is_reported_in_part() -> None:
    rows: list[Schema] = [{"enum": [1]}, {"const": 1}, {"pattern": "^a"}, {"format": "date-time"}, {"format": "email"}]
    for rule in rows:
        found = words({"properties": {"a": rule}}, {"a": "x" * 10_000})

        assert found.startswith("#/a: ")
        assert len(found.splitlines()) == 1
        assert len(found) < 400


LONG = "x" * 900_000
DEEP: Any = 1
for _ in range(200):
    DEEP = {LONG[:50]: DEEP}
LENGTHY: dict[str, tuple[Schema, dict[str, Any]]] = {
    "a missing name": ({"required": [LONG]}, {}),
    "extraneous members": ({"additionalProperties": False}, {f"{number}{LONG}": 1 for number in range(EXTRANEOUS_MAX)}),
    "a place": ({"additionalProperties": {"type": "null"}}, {LONG: 1}),
    "a place within": ({"additionalProperties": {"additionalProperties": {"type": "null"}}}, {LONG: {LONG: 1}}),
    "a pattern": ({"additionalProperties": {"pattern": f"^({LONG[:9_000]})?$"}}, {LONG: LONG}),
    "a limit": ({"properties": {"a": {"type": "array", "items": {"maxLength": 1}}}}, {"a": [LONG]}),
    "not": ({"not": {"description": LONG}}, {}),
    "a constant": ({"properties": {"a": {"const": LONG}}}, {"a": f"y{LONG}"}),
    "dependencies": ({"dependencies": {"a": [LONG]}}, {"a": 1}),
    "a name": ({"propertyNames": {"maxLength": 1}}, {LONG: 1}),
    "control characters": ({"properties": {"a": {"format": "email"}}}, {"a": "\0" * 10_000}),
    "a deep place": ({"additionalProperties": {"$ref": "#"}, "type": "object"}, DEEP),
}


@pytest.mark.parametrize(("rule", "event"), LENGTHY.values(), ids=LENGTHY)
def test_report_is_short_wherever_the_event_or_the_schema_is_long(rule: Schema, event: dict[str, Any]) -> None:
    found = words(rule, event)

    assert max(map(len, found.splitlines())) < (1_200 if event is DEEP else 1_000)
    if event is DEEP:
        assert found.startswith(f"#/{LONG[:50]}/{LONG[:50]}/")
        assert found.endswith(": expected type: JSONObject, found: Integer")


EXPLAINED_AT_ONCE: dict[str, tuple[Schema, dict[str, Any], str]] = {
    "many mistakes": ({"additionalProperties": {"type": "string"}}, {f"p{number}": number for number in range(60_000)},
        r"#/p\d+: expected type: String, found: Integer"),
    "many values that each lack many names": ({"properties": {"a": {"items": {"required": [f"p{number}"
        for number in range(1_000)]}}}}, {"a": [{}] * 1_000}, r"#/a/0: required key \[p0\] not found"),
    "many values that each lack what another name asks for": (
        {"properties": {"a": {"items": {"dependencies": {"x": [f"p{number}" for number in range(1_000)]}}}}},
        {"a": [{"x": 1}] * 1_000},
        r"#/a/0: property \[p0\] is required",
    ),
    "many mistakes at a long place": ({"additionalProperties": {"additionalProperties": {"type": "string"}}},
        {"k" * 100_000: {f"p{number}": number for number in range(1_000)}},
        r"#/k{200}/p\d+: expected type: String, found: Integer"),
    "many mistakes that each name many values": ({"additionalProperties": {"enum": [f"v{number}"
        for number in range(2_000)]}}, {f"p{number}": number for number in range(5_000)},
        r"#/p\d+: \d+ is not a valid enum value"),
    "of names, each of which holds the whole object": ({"$schema": "http://json-schema.org/draft-07/schema#",
        "propertyNames": {"maxLength": 3}}, {f"name{number}": {"a": 1} for number in range(1_000)},
        r"#/name\d+: expected maxLength: 3, actual: \d+"),
    "beside a branch": ({"properties": {"a": {"items": {"anyOf": [{"type": "null"}] * 100}}, "n": {"type": "string"}}},
        {"a": [1] * 1_000, "n": 1}, "#/n: expected type: String, found: Integer"),
    "in a branch": ({"properties": {"a": {"items": {"anyOf": [{"type": "null"}] * 100}}}}, {"a": [1] * 1_000},
        "#: is not what the schema allows; the event is too large to find out where"),
    "where what is referred to stands in a branch": ({"properties": {"a": {"items": {"$ref": "#/anyOf/0"}}},
        "anyOf": [{"type": ["object", "null"]}]}, {"a": [1] * 60_000},
        "#: is not what the schema allows; the event is too large to find out where"),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "event", "pattern"), EXPLAINED_AT_ONCE.values(), ids=EXPLAINED_AT_ONCE)
def test_one_violation_is_reported_where_all_would_fill_the_memory(
    schema: Schema, event: dict[str, Any], pattern: str
) -> None:
    assert Validator(schema).find_first_invalid([event]) == 0
    assert re.fullmatch(pattern, Validator(schema).explain(event))


# Events of each category, by their effective schema.

METADATA = {"eid": "00000000-0000-0000-0000-000000000001", "occurred_at": "2026-11-20T10:00:00Z"}
CHANGE = {"metadata": METADATA, "data_type": "order", "data_op": "C", "data": {"foo": "a"}}
REPORTS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "no metadata": ("business", {"foo": "a"}, ["#: required key [metadata] not found"]),
    "a member too many": ("undefined", {"foo": "a", "bar": 1}, ["#: extraneous key [bar] is not permitted"]),
    "another type": ("undefined", {"foo": 1}, ["#/foo: expected type: String, found: Integer"]),
    "another type of a business event": ("business", {"foo": 1, "metadata": METADATA},
        ["#/foo: expected type: String, found: Integer"]),
    "another type of a change": ("data", CHANGE | {"data": {"foo": 1}},
        ["#/data/foo: expected type: String, found: Integer"]),
    "a change of another kind": ("data", CHANGE | {"data_op": "X"}, ["#/data_op: X is not a valid enum value"]),
    "a change with more": ("data", CHANGE | {"foo": "a"}, ["#: extraneous key [foo] is not permitted"]),
    "several": ("business", {"bar": 1, "metadata": METADATA},
        ["#: 2 schema violations found", "#: extraneous key [bar] is not permitted",
        "#: required key [foo] not found"]),
    **{
        f"a time that is {why}": (
            category,
            event | {"metadata": METADATA | {"occurred_at": text}},
            ["#/metadata/occurred_at:must be a valid date-time"],
        )
        for category, event in (("business", {"foo": "a"}), ("data", CHANGE))
        for why, text in ((f"none, {category}", "now"), (f"too exact, {category}", "2026-11-20T10:00:00.1234567890Z"))
    },
    "a time that is no text": ("business", {"foo": "a", "metadata": METADATA | {"occurred_at": 5}},
        ["#/metadata/occurred_at: expected type: String, found: Integer"]),
    "what only a hub writes": ("business", {"foo": "a", "metadata": METADATA | {"version": "1.0.0"}},
        ["#/metadata: extraneous key [version] is not permitted"]),
}  # fmt: skip


@pytest.mark.parametrize(("category", "event", "expected"), REPORTS.values(), ids=REPORTS)
def test_event_is_reported_by_the_effective_schema_of_its_category(
    category: str, event: dict[str, Any], expected: list[str]
) -> None:
    text = '{"properties": {"foo": {"type": "string"}}, "required": ["foo"]}'
    found = validator(ValidatorKey(text, "t", category, compatible=True, compacted=False))

    assert found.find_first_invalid([event]) == 0
    first, *others = found.explain(event).splitlines()
    assert [first, *sorted(others)] == expected
