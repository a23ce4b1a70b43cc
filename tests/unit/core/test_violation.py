"""Violations are told in Nakadi's words, by place; the tests of validation have more of them."""

from typing import Any

import jsonschema_rs
import pytest

from penstock.core.violation import EXTRANEOUS_MAX, violation_texts
from penstock.core.walk import Schema

TEXTS: dict[str, tuple[Schema, Any, list[str]]] = {
    "a missing key": ({"required": ["a"]}, {}, ["#: required key [a] not found"]),
    "several too many": (
        {"properties": {}, "additionalProperties": False},
        {"b": 1, "a": 2},
        ["#: extraneous key [a] is not permitted", "#: extraneous key [b] is not permitted"],
    ),
    "a key in which a slash is": (
        {"properties": {"a/b": {"type": "null"}}},
        {"a/b": 1.5},
        ["#/a~1b: expected type: Null, found: Double"],
    ),
    "an item": ({"items": {"type": "boolean"}}, [True, None], ["#/1: expected type: Boolean, found: Null"]),
    "an object": ({"type": "array"}, {}, ["#: expected type: JSONArray, found: JSONObject"]),
    "a list": ({"type": "object"}, [], ["#: expected type: JSONObject, found: JSONArray"]),
    "too long": ({"maxLength": 1}, "ab", ["#: expected maxLength: 1"]),
    "too few items": ({"minItems": 1}, [], ["#: expected minimum item count: 1"]),
    "too large": ({"maximum": 1}, 2, ["#: must be less or equal to 1"]),
    "no multiple": ({"multipleOf": 2}, 3, ["#: must be a multiple of 2"]),
    "too few members": ({"minProperties": 1}, {}, ["#: minimum size: [1]"]),
    "too many members": ({"maxProperties": 0}, {"a": 1}, ["#: maximum size: [0]"]),
    "a dependency": ({"dependencies": {"a": ["b"]}}, {"a": 1}, ["#: required key [b] not found"]),
}


@pytest.mark.parametrize(("schema", "value", "texts"), TEXTS.values(), ids=TEXTS)
def test_is_told(schema: Schema, value: Any, texts: list[str]) -> None:
    violations = jsonschema_rs.Draft4Validator(schema).iter_errors(value)

    assert sorted(text for violation in violations for text in violation_texts(violation)) == texts


def test_of_very_many_members_that_are_too_many_the_first_are_told() -> None:
    validator = jsonschema_rs.Draft4Validator({"properties": {}, "additionalProperties": False})

    [violation] = validator.iter_errors({f"p{number}": 1 for number in range(1_000)})

    assert len(violation_texts(violation)) == EXTRANEOUS_MAX


@pytest.mark.parametrize("rule", [{"enum": [1]}, {"pattern": "^a"}, {"format": "date-time"}], ids=repr)
def test_a_long_value_is_told_in_part(rule: Schema) -> None:
    validator = jsonschema_rs.Draft4Validator({"properties": {"a": rule}}, validate_formats=True)

    [violation] = validator.iter_errors({"a": "x" * 10_000})

    [text] = violation_texts(violation)
    assert text.startswith("#/a: ")
    assert len(text) < 400


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
    ],
    ids=["missing", "too many", "a place", "a place within", "a pattern", "a limit"],
)
def test_what_is_long_is_told_in_part_wherever_it_stands(rule: Schema, event: dict[str, Any]) -> None:
    validator = jsonschema_rs.Draft4Validator(rule, pattern_options=jsonschema_rs.RegexOptions())

    [violation] = validator.iter_errors(event)

    assert max(map(len, violation_texts(violation))) < 1_000


def test_the_place_of_what_is_nested_deeply_is_told_in_part() -> None:
    rule: Schema = {"additionalProperties": {"$ref": "#"}, "type": "object"}
    event: Any = 1
    for _ in range(200):
        event = {LONG[:50]: event}

    [violation] = jsonschema_rs.Draft4Validator(rule).iter_errors(event)

    [text] = violation_texts(violation)
    assert text.startswith(f"#/{LONG[:50]}/{LONG[:50]}/")
    assert text.endswith(": expected type: JSONObject, found: Integer")
    assert len(text) < 1_200


@pytest.mark.parametrize("schema", [{"anyOf": [{"type": "null"}]}, {"not": {}}, {"oneOf": [{}, {}]}], ids=repr)
def test_what_has_no_words_of_nakadi_is_told_in_others(schema: Schema) -> None:
    [violation] = jsonschema_rs.Draft4Validator(schema, mask="it").iter_errors("x" * 10_000)

    [text] = violation_texts(violation)
    assert text.startswith(("#: it is ", "#: {} is not allowed for it"))
    assert len(text) < 200
