"""Fields for the guidelines: their place in a schema, their owner, and the meaning of their names."""

from typing import Any

import pytest

from penstock.schema.guidelines.draft import Draft, find, is_required, parts, top_level_fields
from penstock.schema.guidelines.names import says_entity_id
from penstock.schema.traversal import format_pointer
from tests.unit.schema.guidelines.definitions import COUNT, TEXT, described

SCHEMA: dict[str, Any] = {
    "definitions": {"order": {"properties": {"id": TEXT, "of": {"$ref": "#/definitions/order"}}, "required": ["id"]},
        "unused": {"properties": {"a": TEXT}}},
    "properties": {"order": {"$ref": "#/definitions/order", "properties": {"beside": TEXT}}, "a/b": TEXT},
    "required": ["order"],
    "allOf": [{"properties": {"more": TEXT}, "required": ["more"]}],
    "oneOf": [{"properties": {"paid": TEXT}, "required": ["paid", "at"]},
        {"properties": {"open": TEXT}, "required": ["open", "at"]}],
    "not": {"properties": {"excluded": TEXT}},
}  # fmt: skip


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
def test_field_is_found_through_references_and_combinations(
    path: tuple[str, ...], pointer: str | None, required: bool
) -> None:
    found = find(SCHEMA, path)

    assert (found and format_pointer(found.at)) == pointer
    assert is_required(SCHEMA, path) == required
    if path == ("order",):
        assert found
        assert found.schema["required"] == ["id"], "the schema is the one that the reference leads to"


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
def test_circular_and_odd_schemas_are_searched_to_an_end(schema: dict[str, Any]) -> None:
    assert not is_required(schema, ("a", "a"))
    assert find(schema, ("a", "b")) is None
    assert len(list(parts(schema))) <= 4


def test_place_that_many_references_lead_to_is_visited_once() -> None:
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(60)}
    schema = {"definitions": definitions | {"d60": {"required": ["a"]}}, "$ref": "#/definitions/d0"}

    assert is_required(schema, ("a",))
    assert len(list(parts(schema))) == 1 + 60 + 120 + 1


def test_deep_combinations_are_given_up() -> None:
    schema: dict[str, Any] = {"required": ["a"]}
    for _ in range(2_000):
        schema = {"allOf": [schema]}

    assert not is_required(schema, ("a",))
    assert top_level_fields(schema) == []


# Fields of the payload and of the hub.

PAYLOAD = {
    "properties": {"id": TEXT, "data": {"properties": {"id": TEXT}}, "at": TEXT | {"format": "date"}, "day": COUNT},
    "required": ["id"],
}


def draft(category: str, **more: Any) -> Draft:
    return Draft({"category": category, "schema": described(PAYLOAD)} | more)


def test_field_belongs_to_the_payload_or_to_the_hub() -> None:
    rows: list[tuple[str, str, tuple[str, ...], tuple[bool, bool, bool]]] = [
        ("business", "metadata.eid", ("metadata", "eid"), (True, True, True)),
        ("business", "metadata.flow_id", ("metadata", "flow_id"), (True, True, False)),
        ("business", "metadata.colour", ("metadata", "colour"), (False, False, False)),
        ("business", "metadata", ("metadata",), (False, False, False)),
        ("business", "data.id", ("data", "id"), (False, True, False)),
        ("undefined", "metadata.eid", ("metadata", "eid"), (False, False, False)),
        ("data", "data_op", ("data_op",), (True, True, True)),
        ("data", "data.id", ("data", "id"), (False, True, False)),
        ("data", "data.at", ("at",), (False, True, False)),
        ("data", "id", ("id",), (False, True, True)),
        ("data", "data", ("data",), (False, True, False)),
    ]
    for category, text, path, is_so in rows:
        field = draft(category).field(text)

        assert (field.path, (field.is_own, field.is_known, field.is_required)) == (path, is_so)


def test_key_of_a_data_change_lies_in_its_payload() -> None:
    [key] = draft("data", partition_key_fields=["metadata.eid"]).key_fields

    assert (key.is_own, key.is_known) == (False, False)


@pytest.mark.parametrize(("text", "is_time"), [("at", True), ("day", True), ("id", False), ("metadata.eid", False)])
def test_moment_is_recognized_by_its_format_or_else_its_name(text: str, is_time: bool) -> None:
    assert draft("business").field(text).is_time == is_time
    updated = described({"properties": {"updated": TEXT | {"format": "uuid"}}})
    assert not draft("business", schema=updated).field("updated").is_time


def test_odd_members_of_a_definition_are_ignored() -> None:
    odd = Draft({"category": 7, "annotations": {"a": 1, "b": "x"}, "partition_key_fields": ["a", 1, ""], "schema": []})

    assert (odd.category, odd.strategy, odd.schema) == ("", "random", None)
    assert odd.annotations == {"b": "x"}
    assert [field.text for field in odd.key_fields] == ["a"]


# Names.


def test_name_of_an_id_is_recognized_by_the_entity_of_its_event_type() -> None:
    rows: list[tuple[str, str, bool]] = [
        ("category_id", "shop.categories", True), ("address_id", "addresses", True), ("box_id", "boxes", True),
        ("status_id", "orders", False), ("number", "orders", False), ("sku", "stock", True), ("", "orders", False),
    ]  # fmt: skip
    for name, event_type, is_one in rows:
        assert says_entity_id(name, event_type) == is_one
