from typing import Any

import pytest

from penstock.cli.definitions.openapi import dialect_of, from_3_0, from_3_1, why_no_schema


@pytest.mark.parametrize(
    ("document", "dialect"),
    [
        ({"openapi": "3.0.3"}, (from_3_0, None)),
        ({"swagger": "2.0"}, (from_3_0, None)),
        ({"swagger": 2.0}, (from_3_0, None)),
        ({"openapi": "3.1.0"}, (from_3_1, "http://json-schema.org/draft-07/schema#")),
        ({"openapi": "4.0"}, None),
        ({"type": "object"}, None),
        ([], None),
    ],
)
def test_a_document_says_which_dialect_it_speaks(document: Any, dialect: Any) -> None:
    assert dialect_of(document) == dialect


@pytest.mark.parametrize(
    ("given", "schema", "left_out"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}, []),
        ({"type": "string", "nullable": False}, {"type": "string"}, []),
        ({"allOf": [], "nullable": True}, {"allOf": []}, ["nullable"]),
        ({"enum": ["a"], "type": "string", "nullable": True}, {"enum": ["a"], "type": ["string", "null"]}, []),
        ({"minimum": 1, "exclusiveMinimum": True}, {"minimum": 1, "exclusiveMinimum": True}, []),
        ({"$ref": "#/a", "description": "x"}, {"$ref": "#/a"}, []),
        ({"$ref": "#/a", "nullable": True}, {"$ref": "#/a"}, ["nullable"]),
        (
            {"title": "t", "discriminator": {}, "xml": {}, "readOnly": True, "deprecated": True, "x-y": 1, "const": 1},
            {"title": "t"},
            ["const", "deprecated", "discriminator", "readOnly", "x-y", "xml"],
        ),
    ],
)
def test_3_0(given: dict[str, Any], schema: dict[str, Any], left_out: list[str]) -> None:
    assert from_3_0(given) == (schema, left_out)


@pytest.mark.parametrize(
    ("given", "schema", "left_out"),
    [
        ({"type": ["string", "null"], "const": "a"}, {"type": ["string", "null"], "const": "a"}, []),
        ({"prefixItems": [{}], "items": {"a": 1}}, {"items": [{}], "additionalItems": {"a": 1}}, []),
        ({"prefixItems": [{}]}, {"items": [{}]}, []),
        (
            {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {}}},
            {"dependencies": {"a": ["b"], "c": {}}},
            [],
        ),
        ({"$ref": "#/a"}, {"$ref": "#/a"}, []),
        ({"$ref": "#/a", "description": "x"}, {"$ref": "#/a"}, []),
        ({"$ref": "#/a", "minLength": 1}, {"allOf": [{"$ref": "#/a"}], "minLength": 1}, []),
        ({"$ref": "#/a", "allOf": [{"b": 1}]}, {"allOf": [{"$ref": "#/a"}, {"b": 1}]}, []),
        ({"unevaluatedProperties": False, "examples": [1], "$defs": {}}, {}, ["examples", "unevaluatedProperties"]),
    ],
)
def test_3_1(given: dict[str, Any], schema: dict[str, Any], left_out: list[str]) -> None:
    assert from_3_1(given) == (schema, left_out)


@pytest.mark.parametrize(
    ("document", "at"),
    [
        ({"openapi": "3.0.3", "components": {"schemas": {"A": {}}}}, ("components", "schemas", "A")),
        ({"openapi": "3.0.3", "paths": {"/a": {}}}, ("paths", "/a", "get", "schema")),
        ({"definitions": {"A": {}}}, ("definitions",)),
        ({"properties": {"openapi": {}, "info": {}}}, ()),
        ({"openapi": "3.0.3"}, ()),
        ([], ()),
    ],
)
def test_supported_schema_is_unchanged(document: Any, at: tuple[str, ...]) -> None:
    assert why_no_schema(document, at) is None


def test_not_all_of_many_schemas_are_told() -> None:
    document = {"swagger": "2.0", "definitions": {f"A{number}": {} for number in range(12)}}

    told = why_no_schema(document, ("definitions",), "api.yaml")

    assert told is not None
    assert "as in api.yaml#/definitions/A0; it has A0, A1" in told
    assert told.endswith("A9 and 2 more")
