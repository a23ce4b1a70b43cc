from typing import Any

import pytest

from penstock.core.draft_four import ANYTHING, draft_four
from penstock.core.schema import check_schema, closed, dialect

STRING, NULL = {"type": "string"}, {"type": "null"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"const": "a"}, {"enum": ["a"], "type": "string"}),
        ({"enum": ["b", None, "a"]}, {"enum": ["a", "b", None], "type": ["string", "null"]}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
        ({"minimum": 1, "exclusiveMinimum": 0}, {"minimum": 1}),
        ({"minimum": 0, "exclusiveMinimum": 1}, {"minimum": 1, "exclusiveMinimum": True}),
        ({"maximum": 9, "exclusiveMaximum": 9}, {"maximum": 9, "exclusiveMaximum": True}),
        ({"maximum": 9, "exclusiveMaximum": True}, {"maximum": 9, "exclusiveMaximum": True}),
        ({"anyOf": [STRING, NULL]}, {"type": ["string", "null"]}),
        ({"anyOf": [NULL, STRING, {"type": "integer"}]}, {"type": ["integer", "string", "null"]}),
        ({"anyOf": [{"const": 1}, NULL]}, {"enum": [1, None], "type": ["integer", "null"]}),
        ({"anyOf": [{"type": "string", "maxLength": 3}, NULL]}, {"type": ["string", "null"], "maxLength": 3}),
        (
            {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer", "minimum": 1}, NULL]},
            {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "maxLength": 3}, NULL]},
        ),
        ({"anyOf": [STRING], "description": "d"}, {"type": "string", "description": "d"}),
        ({"allOf": [STRING, {"pattern": "a"}]}, {"allOf": [STRING, {"pattern": "a"}]}),
        ({"oneOf": [STRING, {"type": "array"}]}, {"oneOf": [{"type": "array", "items": ANYTHING}, STRING]}),
        ({"type": "object", "additionalProperties": STRING}, {"type": "object", "patternProperties": {".*": STRING}}),
        ({"type": "object", "additionalProperties": True}, {"type": "object", "patternProperties": {".*": {}}}),
        ({"type": "object", "additionalProperties": False}, {"type": "object"}),
        ({"type": "object", "properties": {}, "additionalProperties": True}, {"type": "object", "properties": {}}),
        ({"type": "object", "required": []}, {"type": "object"}),
        ({"patternProperties": {"^a": STRING}, "propertyNames": {}}, {"patternProperties": {"^a": STRING}}),
        (
            {"type": "array", "prefixItems": [STRING, {}], "items": False},
            {"type": "array", "items": [STRING, ANYTHING], "minItems": 2, "maxItems": 2},
        ),
        ({"type": "array", "prefixItems": []}, {"type": "array", "minItems": 0, "maxItems": 0}),
        ({"type": "string", "format": "time"}, STRING),
        (
            {"type": "string", "format": "date", "examples": ["x"], "readOnly": True},
            {"type": "string", "format": "date"},
        ),
        ({"type": "string", "contentEncoding": "base64", "deprecated": True}, STRING),
        ({}, ANYTHING),
        ({"description": "whatever", "default": 3}, ANYTHING | {"description": "whatever", "default": 3}),
    ],
    ids=str,
)
def test_a_word_of_today_is_said_in_those_of_draft_04(given: Any, said: Any) -> None:
    assert draft_four({"type": "object", "properties": {"x": given}})["properties"]["x"] == said


@pytest.mark.parametrize(
    ("default", "kept"), [(1, True), ("a", True), (False, True), (None, False), ([], False), (float("nan"), False)]
)
def test_defaults_are_kept_where_a_schema_can_show_them(default: Any, kept: bool) -> None:
    node = draft_four({"properties": {"x": STRING | {"default": default}}})["properties"]["x"]

    assert ("default" in node) == kept


def test_definitions_that_nothing_leads_to_are_left_out_and_the_root_stands_at_the_root() -> None:
    tree = {"type": "object", "properties": {"below": {"$ref": "#/$defs/Tree", "default": 1}}}
    given = {"$ref": "#/$defs/Tree", "$defs": {"Tree": tree, "Other": STRING}}

    made = {"type": "object", "properties": {"below": {"$ref": "#/definitions/Tree"}}}
    assert draft_four(given) == made | {"definitions": {"Tree": made}}


def test_one_of_several_by_a_member_is_any_of_them() -> None:
    definitions = {"A": {"type": "object", "required": ["a"]}, "B": {"type": "object", "required": ["b"]}}
    either = {"oneOf": [{"$ref": "#/$defs/B"}, {"$ref": "#/$defs/A"}], "discriminator": {"propertyName": "kind"}}

    made = draft_four({"type": "object", "properties": {"x": {"anyOf": [either, NULL]}}, "$defs": definitions})

    assert made["properties"]["x"] == {"anyOf": [{"$ref": "#/definitions/A"}, {"$ref": "#/definitions/B"}, NULL]}


@pytest.mark.parametrize("value", [1, "a", None, [], [{"a": 1}], {"a": {"b": 1}}], ids=str)
def test_what_may_be_anything_may_be_so_in_the_mode_compatible_too(value: Any) -> None:
    schema = draft_four({"type": "object", "properties": {"x": {}, "xs": {"type": "array"}}})
    check_schema(schema, compatible=True, business=False)

    assert dialect(schema)(closed(schema)).is_valid({"x": value, "xs": [value]})
