import jsonschema_rs
import pytest

from penstock.core.schema import closed


@pytest.mark.parametrize(
    ("given", "shut"),
    [
        ({}, {"additionalProperties": False}),
        ({"title": "anything"}, {"title": "anything", "additionalProperties": False}),
        ({"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": False}),
        ({"type": ["object", "null"]}, {"type": ["object", "null"], "additionalProperties": False}),
        ({"required": ["a"]}, {"required": ["a"], "additionalProperties": False}),
        ({"type": "array"}, {"type": "array", "additionalItems": False}),
        ({"minItems": 1}, {"minItems": 1, "additionalItems": False}),
        ({"type": "string"}, {"type": "string"}),
        ({"$ref": "#/definitions/a"}, {"$ref": "#/definitions/a"}),
        ({"enum": [1]}, {"enum": [1]}),
        (
            {"definitions": {"a": {"type": "object"}}, "$ref": "#/definitions/a"},
            {"definitions": {"a": {"type": "object", "additionalProperties": False}}, "$ref": "#/definitions/a"},
        ),
        (
            {"properties": {"a": {"minProperties": 1}}},
            {
                "properties": {"a": {"minProperties": 1, "additionalProperties": False}},
                "additionalProperties": False,
            },
        ),
        (
            {"items": [{"type": "object"}, {"type": "string"}]},
            {
                "items": [{"type": "object", "additionalProperties": False}, {"type": "string"}],
                "additionalItems": False,
            },
        ),
        (
            {"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]},
            {
                "oneOf": [
                    {"type": "object", "additionalProperties": False},
                    {
                        "type": "array",
                        "items": {"type": "object", "additionalProperties": False},
                        "additionalItems": False,
                    },
                ]
            },
        ),
        (
            {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {"dependencies": {"a": ["b"], "c": {"required": ["d"], "additionalProperties": False}}},
        ),
        (
            {"type": "object", "patternProperties": {"^x": {"type": "object"}}},
            {"type": "object", "patternProperties": {"^x": {"type": "object"}}, "additionalProperties": False},
        ),
    ],
)
def test_what_is_not_named_is_shut_out(given: dict[str, object], shut: dict[str, object]) -> None:
    before = repr(given)

    assert closed(given) == shut
    assert repr(given) == before
    jsonschema_rs.meta.validate({"$schema": "http://json-schema.org/draft-07/schema#"} | shut)


def test_a_member_that_no_property_names_is_refused() -> None:
    validator = jsonschema_rs.Draft7Validator(closed({"properties": {"a": {"properties": {"b": {"type": "null"}}}}}))

    assert validator.is_valid({"a": {"b": None}})
    assert not validator.is_valid({"a": {"b": None}, "c": 1})
    assert not validator.is_valid({"a": {"c": 1}})
