"""What a schema says of events, row by row: what breaks a guideline, and what looks like it and does not."""

from typing import Any

import pytest

from tests.unit.core.guidelines.definitions import BUSINESS, DATA, TEXT, Row, assert_as_the_row_says, broken, described

PROCESS = {"business_process_id": TEXT, "step": {"type": "integer"}}
REQUIRED = ["business_process_id", "step"]


def with_fields(*more: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """The business event type, whose events have more fields."""
    return with_schema(*more, properties=PROCESS | properties, required=REQUIRED)


def with_schema(*more: dict[str, Any], **schema: Any) -> dict[str, Any]:
    for each in more:
        schema |= each
    return BUSINESS | {"schema": described(schema)}


def keyword(name: str, value: Any = True) -> dict[str, Any]:
    return with_fields(a=TEXT | {name: value})


ROWS = [
    Row("payload with metadata", with_fields(metadata=TEXT), "payload-only", "#/properties/metadata"),
    Row(
        "metadata in a part of it",
        with_fields({"allOf": [{"properties": {"metadata": TEXT}}]}),
        "payload-only",
        "#/allOf/0/properties/metadata",
    ),
    Row("metadata further in", with_fields(a={"properties": {"metadata": TEXT}})),
    Row("data with a field `data`", with_fields(data=TEXT)),
    Row("nullable", keyword("nullable"), "json-schema", "#/properties/a/nullable"),
    Row("example", keyword("example", "x"), "json-schema", "#/properties/a/example"),
    Row("discriminator", with_fields({"discriminator": {}}), "json-schema", "#/discriminator"),
    Row("extensible enum", keyword("x-extensible-enum", ["a"]), "json-schema", "#/properties/a/x-extensible-enum"),
    Row(
        "a component",
        with_fields(a={"$ref": "#/components/schemas/A", "nullable": True}),
        "json-schema",
        "#/properties/a/$ref",
    ),
    Row("a whole OpenAPI document", with_fields({"openapi": "3.0.3", "info": {}}), "json-schema", "#"),
    Row("a field called nullable", with_fields(nullable=TEXT, example=TEXT, xml=TEXT)),
    Row("an enum of what looks so", keyword("enum", [{"nullable": True}])),
    Row("open", with_fields({"additionalProperties": True}), "additional-properties", "#/additionalProperties", "may"),
    Row(
        "closed",
        with_fields({"additionalProperties": False}),
        "additional-properties",
        "#/additionalProperties",
        "later",
    ),
    Row(
        "a map within an array",
        with_fields(a={"items": {"additionalProperties": TEXT}}),
        "additional-properties",
        "#/properties/a/items/additionalProperties",
        "map",
    ),
    Row("a field called additionalProperties", with_fields(additionalProperties=TEXT)),
    Row("mail", with_fields(email=TEXT), "personal-data", "#/properties/email"),
    Row("mail by its format", with_fields(contact=TEXT | {"format": "email"}), "personal-data", "#/properties/contact"),
    Row(
        "list of mails by their format",
        with_fields(contacts={"items": {"type": "string", "format": "idn-email"}}),
        "personal-data",
        "#/properties/contacts",
    ),
    Row(
        "phone within a branch",
        with_fields(a={"oneOf": [{"properties": {"mobilePhone": TEXT}}, {"type": "null"}]}),
        "personal-data",
        "#/properties/a/oneOf/0/properties/mobilePhone",
    ),
    Row(
        "mail by reference",
        with_fields({"definitions": {"a": {"properties": {"email_address": TEXT}}}}, a={"$ref": "#/definitions/a"}),
        "personal-data",
        "#/definitions/a/properties/email_address",
    ),
    Row("phone that nobody refers to", with_fields({"definitions": {"a": {"properties": {"phone": TEXT}}}})),
    Row("phone that is excluded", with_fields({"not": {"properties": {"phone": TEXT}, "required": ["phone"]}})),
    Row("whether there is a phone", with_fields(phone={"type": "boolean"}, email={"type": ["boolean", "null"]})),
    Row(
        "whether there is one, by reference",
        with_fields({"definitions": {"yes": {"type": "boolean"}}}, phone={"$ref": "#/definitions/yes"}),
    ),
    Row("about a mail", with_fields(email_template_id=TEXT, phone_model=TEXT, headphones=TEXT, mobile=TEXT)),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_payload(row: Row) -> None:
    assert_as_the_row_says(row)


@pytest.mark.parametrize("name", ["metadata", "data_type", "data_op"])
def test_what_comes_with_a_data_change_is_not_part_of_its_payload(name: str) -> None:
    properties = {"order_id": TEXT, "version": TEXT, name: TEXT}
    definition = DATA | {"schema": described({"properties": properties, "required": ["order_id", "version"]})}

    assert broken(definition) == [("payload-only", f"#/properties/{name}")]


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        (None, "#/schema"),
        ("{}", "#/schema"),
        ({"type": "json_schema"}, "#/schema"),
        ({"type": "json_schema", "schema": "{"}, "#/schema"),
        ({"type": "json_schema", "schema": "[]"}, "#/schema"),
        (described({}), "#"),
        (described({"type": "object", "required": ["a"]}), "#"),
    ],
)
def test_an_event_type_has_a_schema_that_names_fields(given: Any, pointer: str) -> None:
    findings = broken(DATA | {"schema": given})

    assert ("payload-schema", pointer) in findings


def test_a_schema_that_refers_to_itself_is_looked_at_once() -> None:
    person = {"properties": {"phone": TEXT, "friends": {"items": {"$ref": "#/definitions/person"}}}}
    definition = with_fields(
        {"definitions": {"person": person}}, who={"$ref": "#/definitions/person"}, me={"$ref": "#"}
    )

    assert broken(definition) == [("personal-data", "#/definitions/person/properties/phone")]
