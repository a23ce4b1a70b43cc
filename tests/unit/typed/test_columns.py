"""The table of the module says which types there are; here is what it does not."""

from typing import Any

import pytest

from penstock.core.events.metadata import SERVER_MEMBERS
from penstock.schema.effective import metadata_schema
from penstock.typed.columns import METADATA, NODES_MAX, _leaves, event_columns, merge
from tests.unit.spark.kinds import show

ADDRESS = {"type": "object", "properties": {"zip": {"type": "string"}}}


def columns(schema: Any, category: str = "undefined") -> str:
    return show(event_columns(schema, category))


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": ["integer", "number", "null"]}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "string", "format": "uuid"}, "string"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "number", "format": "decimal"}, "decimal(38,18)"),
        ({"type": ["string", "null"]}, "string"),
        ({"type": ["string", "integer"]}, "string"),
        ({"enum": ["a", "b", None]}, "string"),
        ({"const": 7}, "bigint"),
        ({"enum": [1, "a"]}, "string"),
        ({}, "string"),
        (True, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array"}, "array<string>"),
        ({"type": "array", "items": [{"type": "integer"}]}, "array<string>"),
        (ADDRESS, "struct<zip:string>"),
        ({"properties": {"zip": {"type": "string"}}}, "struct<zip:string>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "map<string,double>"),
        ({"type": "object", "additionalProperties": {"type": "number"}, "patternProperties": {"^x": {}}}, "string"),
        ({"type": "object"}, "string"),
        ({"type": "object", "properties": {}}, "string"),
        ({"$ref": "#/definitions/address"}, "struct<zip:string>"),
        ({"$ref": "#/definitions/nowhere"}, "string"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "bigint"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "double"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "string"),
        ({"oneOf": [ADDRESS, {"$ref": "#/definitions/city"}]}, "struct<zip:string,city:string>"),
        ({"anyOf": [{"type": "array", "items": ADDRESS}, {"type": "array", "items": {"$ref": "#/definitions/city"}}]},
            "array<struct<zip:string,city:string>>"),
        ({"allOf": [ADDRESS, {"$ref": "#/definitions/city"}]}, "struct<zip:string,city:string>"),
        ({"type": "object", "allOf": [ADDRESS], "required": ["zip"]}, "struct<zip:string>"),
        (ADDRESS | {"anyOf": [{"required": ["zip"]}, {"required": ["city"]}]}, "struct<zip:string>"),
        ({"$ref": "#/definitions/tree"}, "struct<name:string,children:array<string>>"),
    ],
)  # fmt: skip
def test_a_member_has_the_type_that_its_schema_says(node: Any, kind: str) -> None:
    tree = of(name={"type": "string"}, children={"type": "array", "items": {"$ref": "#/definitions/tree"}})
    definitions = {"address": ADDRESS, "city": of(city={"type": "string"}), "tree": tree}

    assert columns(of(a=node) | {"definitions": definitions}) == f"struct<a:{kind}>"


def test_of_names_that_sql_does_not_tell_apart_the_first_has_a_column() -> None:
    assert columns(of(id={"type": "integer"}, ID={"type": "string"})) == "struct<id:bigint>"


def test_business_events_have_their_metadata() -> None:
    assert columns(of(id={"type": "integer"}, metadata={}), "business").startswith(
        "struct<id:bigint,metadata:struct<eid"
    )


def test_data_changes_have_their_data_as_a_nested_column() -> None:
    found = columns(of(id={"type": "integer"}), "data")
    assert found.startswith("struct<data_type:string,data_op:string,data:struct<id:bigint>,metadata:struct<eid")
    assert ",data:string,metadata" in columns({}, "data")


def test_all_metadata_that_there_can_be_has_columns() -> None:
    assert {field.name for field in METADATA} == SERVER_MEMBERS | metadata_schema("a", compacted=True)[
        "properties"
    ].keys()


def test_a_schema_that_names_nothing_has_no_columns() -> None:
    assert columns({}) == "struct<>"
    assert columns({"additionalProperties": {"type": "string"}}) == "struct<>"


def test_several_event_types_have_the_columns_of_all() -> None:
    one, other = (event_columns(of(**each), "undefined") for each in (
        {"id": {"type": "integer"}, "at": {"type": "string"}, "own": {"type": "boolean"}},
        {"id": {"type": "number"}, "at": {"type": "integer"}, "AT": {"type": "integer"}, "more": {"type": "boolean"}},
    ))  # fmt: skip

    assert show(merge([one, other])) == "struct<id:double,at:string,own:boolean,more:boolean>"
    assert merge([one]) == one


def test_schema_whose_references_multiply_is_read_up_to_a_limit() -> None:
    """Each level refers to the next one twice: 2 ** 60 columns, were there no limit."""
    next_level = [{"$ref": f"#/definitions/level{n + 1}"} for n in range(60)]
    levels = {f"level{n}": of(a=each, b=each) for n, each in enumerate(next_level)}

    found = event_columns({"$ref": "#/definitions/level0", "definitions": levels}, "undefined")

    assert len([*_leaves(found, "data")]) < NODES_MAX
