from typing import Any

import pytest

from penstock.core.guidelines.fields import find, is_required, parts, top_level
from penstock.core.walk import shown

TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "definitions": {
        "order": {"properties": {"id": TEXT, "of": {"$ref": "#/definitions/order"}}, "required": ["id"]},
        "unused": {"properties": {"a": TEXT}},
    },
    "properties": {"order": {"$ref": "#/definitions/order", "properties": {"beside": TEXT}}, "a/b": TEXT},
    "required": ["order"],
    "allOf": [{"properties": {"more": TEXT}, "required": ["more"]}],
    "oneOf": [
        {"properties": {"paid": TEXT}, "required": ["paid", "at"]},
        {"properties": {"open": TEXT}, "required": ["open", "at"]},
    ],
    "not": {"properties": {"excluded": TEXT}},
}


def test_parts_are_what_has_a_say() -> None:
    found = {shown(node.at): node.name for node in parts(SCHEMA)}

    assert found == {
        "#": None,
        "#/properties/order": "order",
        "#/definitions/order": None,
        "#/definitions/order/properties/id": "id",
        "#/definitions/order/properties/of": "of",
        "#/properties/a~1b": "a/b",
        "#/allOf/0": None,
        "#/allOf/0/properties/more": "more",
        "#/oneOf/0": None,
        "#/oneOf/0/properties/paid": "paid",
        "#/oneOf/1": None,
        "#/oneOf/1/properties/open": "open",
    }


def test_the_top_level_is_what_an_event_itself_has() -> None:
    assert [(field.name, shown(field.at)) for field in top_level(SCHEMA)] == [
        ("order", "#/properties/order"),
        ("a/b", "#/properties/a~1b"),
        ("more", "#/allOf/0/properties/more"),
        ("paid", "#/oneOf/0/properties/paid"),
        ("open", "#/oneOf/1/properties/open"),
    ]


@pytest.mark.parametrize(
    ("path", "pointer", "required"),
    [
        (("order",), "#/definitions/order", True),
        (("order", "id"), "#/definitions/order/properties/id", True),
        (("order", "of"), "#/definitions/order", False),
        (("order", "of", "of", "id"), "#/definitions/order/properties/id", False),
        (("order", "beside"), None, False),
        (("more",), "#/allOf/0/properties/more", True),
        (("paid",), "#/oneOf/0/properties/paid", False),
        (("at",), None, True),
        (("excluded",), None, False),
        (("nothing", "id"), None, False),
    ],
)
def test_a_field_is_found_through_references_and_combinations(
    path: tuple[str, ...], pointer: str | None, required: bool
) -> None:
    found = find(SCHEMA, path)

    assert (found and shown(found.at)) == pointer
    assert is_required(SCHEMA, path) == required


def test_what_is_found_is_what_a_reference_leads_to() -> None:
    found = find(SCHEMA, ("order",))

    assert found
    assert found.schema["required"] == ["id"]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/a", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"$ref": "other.json#/a"},
        {"properties": [], "required": {"a": 1}, "allOf": {}, "anyOf": [True, None, 7], "oneOf": []},
    ],
)
def test_circles_and_odd_schemas_come_to_an_end(schema: dict[str, Any]) -> None:
    assert not is_required(schema, ("a", "a"))
    assert find(schema, ("a", "b")) is None
    assert len(list(parts(schema))) <= 4


def test_many_ways_to_one_place_are_gone_once() -> None:
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(60)}
    schema = {"definitions": definitions | {"d60": {"required": ["a"]}}, "$ref": "#/definitions/d0"}

    assert is_required(schema, ("a",))
    assert len(list(parts(schema))) == 1 + 60 + 120 + 1


def test_deep_combinations_are_given_up() -> None:
    schema: dict[str, Any] = {"required": ["a"]}
    for _ in range(5_000):
        schema = {"allOf": [schema]}

    assert not is_required(schema, ("a",))
    assert top_level(schema) == []
