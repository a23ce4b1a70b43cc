"""Batches are looked at together, and told as Nakadi tells them."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.effective import effective_schema
from penstock.core.validation import VIOLATIONS_MAX, Validator, validator
from penstock.core.walk import Schema

NUMBERS: Schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize("wrong", [0, 1, 7, 9])
def test_the_first_that_is_not_valid_is_found(wrong: int) -> None:
    events: list[dict[str, Any]] = [{"n": number} for number in range(10)]
    events[wrong]["n"] = "x"
    events[9] = {}

    assert Validator(NUMBERS).first_invalid(events) == wrong


def test_what_is_valid_has_no_first_that_is_not() -> None:
    assert Validator(NUMBERS).first_invalid([{"n": 1}, {"n": 2, "more": []}]) is None
    assert Validator(NUMBERS).first_invalid([]) is None
    assert Validator({"type": "object"}).first_invalid([{"anything": None}]) is None


def test_a_list_is_validated_by_references_that_lead_where_they_led() -> None:
    tree = {
        "definitions": {"n": {"type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/n"}, "in": {"$ref": "#"}},
    }

    assert Validator(tree).first_invalid([{"in": {"in": {"n": 1}}}]) is None
    assert Validator(tree).first_invalid([{"n": 1}, {"in": {"in": {"n": "x"}}}]) == 1


TEXTS: dict[str, tuple[Schema, dict[str, Any], str]] = {
    "missing": (NUMBERS, {}, "#: required key [n] not found"),
    "another type": (NUMBERS, {"n": "x"}, "#/n: expected type: Integer, found: String"),
    "no null": ({"properties": {"n": {"type": "string"}}}, {"n": None}, "#/n: expected type: String, found: Null"),
    "one of two types": (
        {"properties": {"n": {"type": ["string", "array"]}}},
        {"n": True},
        "#/n: expected type: String or JSONArray, found: Boolean",
    ),
    "unknown": ({"additionalProperties": False}, {"foo": 1}, "#: extraneous key [foo] is not permitted"),
    "deep": (
        {"properties": {"a": {"items": {"required": ["b/c"]}}}},
        {"a": [{"b/c": 1}, {}]},
        "#/a/1: required key [b/c] not found",
    ),
    "enum": ({"properties": {"n": {"enum": ["a"]}}}, {"n": "b"}, '#/n: "b" is not a valid enum value'),
    "pattern": ({"properties": {"n": {"pattern": "^a"}}}, {"n": "b"}, "#/n: string [b] does not match pattern ^a"),
    "format": ({"properties": {"n": {"format": "date-time"}}}, {"n": "b"}, "#/n: [b] is not a valid date-time"),
    "currency": ({"properties": {"n": {"format": "iso-4217"}}}, {"n": "eur"}, "#/n: [eur] is not a valid iso-4217"),
    "too short": ({"properties": {"n": {"minLength": 3}}}, {"n": "b"}, "#/n: expected minLength: 3"),
    "too small": ({"properties": {"n": {"minimum": 3}}}, {"n": 2}, "#/n: must be greater or equal to 3"),
    "too many": ({"properties": {"n": {"maxItems": 1}}}, {"n": [1, 2]}, "#/n: expected maximum item count: 1"),
    "not unique": ({"properties": {"n": {"uniqueItems": True}}}, {"n": [1, 1]}, "#/n: array items are not unique"),
    "a time": (
        {"properties": {"metadata": {"properties": {"occurred_at": {"format": "date-time"}}}}},
        {"metadata": {"occurred_at": "now"}},
        "#/metadata/occurred_at:must be a valid date-time",
    ),
}


@pytest.mark.parametrize(("schema", "event", "text"), TEXTS.values(), ids=TEXTS)
def test_what_is_wrong_is_told_by_its_place(schema: Schema, event: dict[str, Any], text: str) -> None:
    assert Validator(schema).why(event) == text


def test_several_things_are_counted_and_told_one_a_line() -> None:
    told = Validator(NUMBERS | {"additionalProperties": False}).why({"m": 1})

    assert told.splitlines()[0] == "#: 2 schema violations found"
    assert set(told.splitlines()[1:]) == {"#: required key [n] not found", "#: extraneous key [m] is not permitted"}


def test_an_event_with_very_many_mistakes_is_told_some_of_them() -> None:
    told = Validator({"additionalProperties": {"type": "string"}}).why({f"p{n}": n for n in range(10_000)})

    assert len(told.splitlines()) <= VIOLATIONS_MAX + 1


def test_a_validator_is_made_once() -> None:
    how = {"name": "t", "category": "business", "compatible": False, "compacted": False}

    assert validator("{}", **how) is validator("{}", **how)  # type: ignore[arg-type]
    assert validator("{}", **how) is not validator("{}", **(how | {"name": "u"}))  # type: ignore[arg-type]


SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner)
)
EVENTS = st.dictionaries(st.sampled_from("xyz"), VALUES)
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "required": st.lists(st.sampled_from("xyz"), unique=True),
        "properties": st.dictionaries(
            st.sampled_from("xyz"),
            st.sampled_from(
                [{"type": "string"}, {"type": "integer"}, {"minimum": 1}, {"enum": ["a", 1]}, {"type": "object"}]
            ),
        ),
        "additionalProperties": st.booleans(),
        "maxProperties": st.integers(0, 2),
    },
)


@given(SCHEMAS, st.lists(EVENTS, max_size=5))
def test_a_batch_is_judged_as_its_events_are(schema: Schema, events: list[dict[str, Any]]) -> None:
    alone = jsonschema_rs.Draft4Validator({name: held for name, held in schema.items() if name != "required" or held})
    expected = next((number for number, event in enumerate(events) if not alone.is_valid(event)), None)

    effective = effective_schema(schema, name="t", category="undefined", compatible=False, compacted=False)

    assert Validator(effective).first_invalid(events) == expected
