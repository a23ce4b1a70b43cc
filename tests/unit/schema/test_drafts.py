"""A schema that was converted to draft 7 accepts what it has accepted in its own draft."""

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidEventType
from penstock.schema.drafts import convert_to_draft_seven
from penstock.schema.parsing import check_schema, dialect
from penstock.schema.traversal import Schema
from tests.exhaustive import examples
from tests.unit.schema.nodes import draft

NUMBERS = st.integers(-3, 3)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "a", "ab"]),
    lambda held: st.lists(held, max_size=2) | st.dictionaries(st.sampled_from(["a", "$ref", "const"]), held),
    max_leaves=4,
)
EVENTS = st.dictionaries(st.sampled_from(["a", "b", "$ref"]), VALUES, max_size=3)


def hold(node: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b", "$ref", "const"]), node, max_size=2),
            "anyOf": st.lists(node, min_size=1, max_size=2),
            "not": node,
            "items": node,
            "contains": node,
            "if": node,
            "then": node,
            "additionalProperties": st.booleans(),
        },
    )


LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["integer", "string", "object", "array"]),
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "exclusiveMinimum": st.booleans() | NUMBERS,
        "exclusiveMaximum": st.booleans() | NUMBERS,
        "const": VALUES.filter(lambda value: "$ref" not in str(value)),
        "enum": st.lists(NUMBERS, min_size=1, max_size=2, unique=True),
        "required": st.just(["a"]),
        "title": st.just("a"),
        "deprecated": st.just("not a boolean"),
    },
) | st.sampled_from([{"$ref": "#/definitions/one"}, {"$ref": "#/definitions/const/contains", "minimum": 9}])
NODES = st.recursive(LEAVES, hold, max_leaves=6)
SCHEMAS = st.builds(
    lambda number, root, one, other: (
        (draft(number) if number else {}) | root | {"definitions": {"one": one, "const": {"contains": other}}}
    ),
    st.sampled_from([0, 4, 6, 7]),
    hold(NODES),
    NODES,
    NODES,
)


@settings(max_examples=examples(40, 2_000), deadline=None)
@given(schema=SCHEMAS, events=st.lists(EVENTS, min_size=3, max_size=3))
def test_converted_schema_accepts_the_same_events(schema: Schema, events: list[Schema]) -> None:
    try:
        check_schema(schema, compatible=False, business=False)
    except InvalidEventType:
        return
    converted = convert_to_draft_seven(schema)
    before = dialect(schema)(schema)
    after = jsonschema_rs.Draft7Validator({**converted, "$schema": draft(7)["$schema"]})
    for event in events:
        assert before.is_valid(event) == after.is_valid(event), (schema, converted, event)


@pytest.mark.parametrize("word", ["enum", "default", "x-of-the-owner"])
def test_values_that_look_like_references_are_left_out(word: str) -> None:
    held = [{"$ref": "http://127.0.0.1:1/"}]
    assert convert_to_draft_seven({"properties": {"a": {word: held, "type": "object"}}}) == {
        "properties": {"a": {"type": "object"}}
    }
