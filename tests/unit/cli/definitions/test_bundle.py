"""A schema of an OpenAPI or another document is bundled with the schemas that it references."""

import os
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.definitions.definition import Bundle, bundle_schema
from penstock.cli.definitions.document import Document, FileLine, Unreadable, yaml_documents

HERE = FileLine("types/orders.yaml", 7)

OPENAPI = """\
openapi: 3.0.3
components:
  schemas:
    Order:
      type: object
      properties:
        id: {type: string, example: o-1}
        parent: {$ref: '#/components/schemas/Order'}
        customer: {$ref: '#/components/schemas/Customer'}
        money: {$ref: '../money.yaml#/Money'}
        lines: {type: array, items: {$ref: '#/components/schemas/Order/properties/line'}}
        line: {type: object, nullable: true}
    Customer:
      type: object
      xml: {name: c}
      properties:
        boss:
          $ref: '#/components/schemas/Customer'
    Unused: {$ref: 'nowhere.yaml'}
    Alias: {$ref: '#/components/schemas/Order'}
    Text: {type: string}
    a/b%c: {type: object, properties: {d: {$ref: '#/components/schemas/a~1b%25c/properties/e'}, e: {type: string}}}
    Circle: {$ref: '#/components/schemas/Circle'}
    Far: {type: object, properties: {a: {$ref: 'https://example.org/a.json'}}}
    Lost: {type: object, properties: {a: {$ref: '#/components/schemas/Gone'}}}
    Named: {type: object, properties: {a: {$ref: '#Text'}}}
    List: [1]
    Maybe:
      type: object
      nullable: true
"""
MONEY = """\
$schema: http://json-schema.org/draft-07/schema#
definitions:
  Unused: {$ref: '#/definitions/Gone'}
Money: {type: object, properties: {currency: {$ref: '#/Customer'}}, x-unit: cent}
Customer: {type: string}
"""
FILES = {"types/openapi.yaml": OPENAPI, "money.yaml": MONEY}


def opened(file: Path, place: FileLine) -> Document:
    name = os.path.normpath(file)
    if name not in FILES:
        raise Unreadable(place, f"{name} cannot be read")
    return yaml_documents(FILES[name], name)[0]


def bundle(reference: str) -> Bundle:
    return bundle_schema(reference, Document("types/orders.yaml", {}, {(): 1}), HERE, opened)


def test_bundle_contains_the_referenced_schemas_and_names_what_is_left_out_and_where() -> None:
    found = bundle("openapi.yaml#/components/schemas/Order")

    assert found.schema == {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "parent": {"$ref": "#"},
            "customer": {"$ref": "#/definitions/Customer"},
            "money": {"$ref": "#/definitions/Money"},
            "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
            "line": {"type": ["object", "null"]},
        },
        "definitions": {
            "Customer": {"type": "object", "properties": {"boss": {"$ref": "#/definitions/Customer"}}},
            "Money": {
                "type": "object",
                "properties": {"currency": {"$ref": "#/definitions/Customer_2"}},
                "x-unit": "cent",
            },
            "line": {"type": ["object", "null"]},
            "Customer_2": {"type": "string"},
        },
    }

    assert found.left_out == (
        "`example` is left out: types/openapi.yaml#/components/schemas/Order/properties/id",
        "`xml` is left out: types/openapi.yaml#/components/schemas/Customer",
    )

    assert found.place(()) == FileLine("types/openapi.yaml", 4)
    assert found.place(("properties", "id")) == FileLine("types/openapi.yaml", 7)
    assert found.place(("properties", "id", "nothing")) == FileLine("types/openapi.yaml", 7)
    assert found.place(("definitions", "Customer", "properties", "boss")) == FileLine("types/openapi.yaml", 17)
    assert found.place(("definitions", "Money", "properties", "currency")) == FileLine("money.yaml", 4)


def test_references_to_references_and_with_escaped_characters_are_followed() -> None:
    assert bundle("openapi.yaml#/components/schemas/Alias") == bundle("openapi.yaml#/components/schemas/Order")

    found = bundle("openapi.yaml#/components/schemas/a~1b%25c")

    assert found.schema["properties"]["d"] == {"$ref": "#/definitions/e"}
    assert found.schema["definitions"] == {"e": {"type": "string"}}


def test_schema_of_openapi_3_1_names_its_draft() -> None:
    document = yaml_documents(OPENAPI.replace("3.0.3", "3.1.0"), "types/openapi.yaml")[0]

    found = bundle_schema("#/components/schemas/Customer", document, HERE, opened)

    assert found.schema["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_document_other_than_openapi_is_unchanged() -> None:
    document = Document("a.json", {"type": "object", "x-y": 1, "properties": {"a": {"$ref": "#/definitions/a"}},
                                   "definitions": {"a": {"nullable": True}, "b": {}}}, {(): 1})  # fmt: skip

    found = bundle_schema("#", document, HERE, opened)

    assert found.schema == document.value | {"definitions": {"a": {"nullable": True}}}
    assert found.left_out == ()


@pytest.mark.parametrize(
    ("reference", "place", "says"),
    [
        ("nowhere.yaml#/a", HERE, "types/nowhere.yaml cannot be read"),
        ("openapi.yaml#/components/schemas/Gone", HERE, "leads to nothing in types/openapi.yaml"),
        ("openapi.yaml#Order", HERE, "has no JSON pointer behind `#`"),
        ("https://example.org/a.yaml#/a", HERE, "is on another machine"),
        ("openapi.yaml#/openapi", HERE, "leads to what is no schema"),
        ("openapi.yaml#/components/schemas/List", HERE, "leads to what is no schema"),
        ("openapi.yaml#/components/schemas/Circle", None, "without end"),
        ("openapi.yaml#/components/schemas/Maybe", FileLine("types/openapi.yaml", 30), "an event is never null: take"),
        ("openapi.yaml#/components/schemas/Far", FileLine("types/openapi.yaml", 24), "is on another machine"),
        ("openapi.yaml#/components/schemas/Lost", FileLine("types/openapi.yaml", 25), "leads to nothing"),
        ("openapi.yaml#/components/schemas/Named", FileLine("types/openapi.yaml", 26), "has no JSON pointer"),
        ("openapi.yaml#/components/schemas/Unused", FileLine("types/openapi.yaml", 19), "nowhere.yaml cannot be read"),
    ],
)
def test_unusable_reference_is_refused_with_its_place(reference: str, place: Any, says: str) -> None:
    with pytest.raises(Unreadable) as refused:
        bundle(reference)

    assert says in refused.value.reason
    assert place is None or refused.value.place == place
