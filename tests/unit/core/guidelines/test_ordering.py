"""What identifies and orders events, row by row: what breaks a guideline, and what looks like it and does not."""

from typing import Any

import pytest

from tests.unit.core.guidelines.definitions import (
    BUSINESS,
    COUNT,
    DATA,
    TEXT,
    UNDEFINED,
    Row,
    assert_as_the_row_says,
    broken,
    described,
    schema,
)

TIME = {"type": "string", "format": "date-time"}


def process(named: str | None, **properties: Any) -> dict[str, Any]:
    """The business event type with other fields, one of which may be named as the process's id."""
    annotations = {} if named is None else {"penstock/process-id-field": named}
    return BUSINESS | {"annotations": annotations, "schema": schema(*properties, **properties)}


def change(required: str, **more: Any) -> dict[str, Any]:
    """The data event type with other fields, of which those are required."""
    properties = {"order_id": TEXT, "version": COUNT, "at": TIME, "eid": TEXT, "sku": TEXT, "customer": TEXT}
    return DATA | {"schema": schema(*required.split(), **properties)} | more


def entity(named: str) -> dict[str, Any]:
    return {"annotations": {"penstock/entity-key-fields": named}}


KEYED_BY = "partition_key_fields"
ORDERED_BY = "ordering_key_fields"

ROWS = [
    Row("no process id", process(None, step=COUNT, order_id=TEXT), "process-id", "#/properties"),
    Row(
        "process id that may be missing",
        BUSINESS | {"schema": schema("step", bp_id=TEXT, step=COUNT)},
        "process-id",
        "#/properties/bp_id",
        "'bp_id' is not required",
    ),
    Row("process id of another word", process(None, orderProcessId=TEXT, step=COUNT)),
    Row("named process id", process("order_id", order_id=TEXT, step=COUNT)),
    Row(
        "named process id further in",
        process("order.id", order={"properties": {"id": TEXT}, "required": ["id"]}, step=COUNT),
    ),
    Row(
        "named process id that is not there",
        process("order", order_id=TEXT, step=COUNT),
        "process-id",
        "#/annotations/penstock~1process-id-field",
        "does not have",
    ),
    Row(
        "named process id that may be missing",
        process("order.id", order={"properties": {"id": TEXT}}, step=COUNT),
        "process-id",
        "#/annotations/penstock~1process-id-field",
        "not required",
    ),
    Row("no order of a process", BUSINESS | {ORDERED_BY: []}, "process-order", "#/ordering_key_fields"),
    Row("ordered by parents", BUSINESS | {ORDERED_BY: ["metadata.parent_eids"]}),
    Row("ordered by nothing", BUSINESS | {ORDERED_BY: ["m"]}, "process-order",
        "#/ordering_key_fields/0", "no field 'm'"),
    Row("ordered by what may be missing", BUSINESS | {ORDERED_BY: ["step", "total"]}, "process-order",
        "#/ordering_key_fields/1", "not required"),
    Row("ordered by metadata that there is not", BUSINESS | {ORDERED_BY: ["metadata.version2"]}, "process-order",
        "#/ordering_key_fields/0", "no field"),
    Row("ordered by time", BUSINESS | {ORDERED_BY: ["metadata.occurred_at"]}, "order-not-by-time",
        "#/ordering_key_fields/0"),
    Row("no order of an entity", DATA | {ORDERED_BY: None}, "entity-order", "#/ordering_key_fields"),
    Row("ordered by a field without `data`", change("order_id version", ordering_key_fields=["version"])),
    Row("ordered by a field's format", change("order_id at", ordering_key_fields=["data.at"]), "order-not-by-time",
        "#/ordering_key_fields/0"),
    Row("no order at all", UNDEFINED | {ORDERED_BY: []}, "explicit-order", "#/ordering_key_fields"),
    Row(
        "ordered by a field's name",
        UNDEFINED | {ORDERED_BY: ["created_at"], "schema": schema("eid", "created_at", eid=TEXT, created_at=COUNT)},
        "order-not-by-time",
        "#/ordering_key_fields/0",
    ),
    Row("changes at random", DATA | {"partition_strategy": "random"}, "hash-partitioning", "#/partition_strategy"),
    Row("changes without strategy", DATA | {"partition_strategy": None}, "hash-partitioning", "#/partition_strategy"),
    Row("hashed by eid", change("eid order_id version", **{KEYED_BY: ["eid"]}), "hash-by-entity",
        "#/partition_key_fields/0", "each event"),
    Row("hashed by time", change("at order_id version", **{KEYED_BY: ["order_id", "at"]}), "hash-by-entity",
        "#/partition_key_fields/1", "moment"),
    Row("business hashed by its eid",
        BUSINESS | {"partition_strategy": "hash", KEYED_BY: ["metadata.eid"]}, "hash-by-entity",
        "#/partition_key_fields/0"),
    Row("business hashed by its process",
        BUSINESS | {"partition_strategy": "hash", KEYED_BY: ["business_process_id"]}),
    Row("hashed by something else",
        change("order_id version customer", **{KEYED_BY: ["customer"]}, **entity("order_id")), "hash-by-entity",
        "#/partition_key_fields/0", "none of the fields"),
    Row("hashed by a part of the entity",
        change("order_id version sku", **{KEYED_BY: ["sku"]}, **entity(" order_id , data.sku"))),
    Row("key that may be missing", change("order_id version", **{KEYED_BY: ["sku"]}), "key-fields-defined",
        "#/partition_key_fields/0", "not required"),
    Row("key with the prefix that is implied", DATA | {KEYED_BY: ["data.order_id"]}, "key-fields-defined",
        "#/partition_key_fields/0", "not in the schema"),
    Row("quoted key", DATA
        | {KEYED_BY: ["'order.id'"], "schema": schema("order.id", "version", **{"order.id": TEXT}, version=COUNT)}),
    Row("entity that is not there", change("order_id version", **entity("order")), "entity-key",
        "#/annotations/penstock~1entity-key-fields", "does not have"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_ordering(row: Row) -> None:
    if row.name == "entity that is not there":
        assert broken(row.definition)[0] == (row.rule, row.pointer)  # The key is none of its fields either.
    else:
        assert_as_the_row_says(row)


@pytest.mark.parametrize(
    ("properties", "required", "pointers"),
    [
        ({"customer": TEXT}, ["customer"], ["#/properties"]),
        ({"customer_id": TEXT}, ["customer_id"], ["#/properties"]),
        ({"id": TEXT}, [], ["#/properties/id"]),
        ({"id": TEXT}, ["id"], []),
        ({"orderNumber": TEXT}, ["orderNumber"], []),
        ({"sales_order_id": TEXT}, ["sales_order_id"], []),
    ],
)
def test_an_entity_is_found_by_its_usual_names(
    properties: dict[str, Any], required: list[str], pointers: list[str]
) -> None:
    described_so = described({"properties": properties, "required": required})
    found = broken(DATA | {"partition_strategy": "random", "partition_key_fields": [], "schema": described_so})

    assert [pointer for rule, pointer in found if rule == "entity-key"] == pointers


def test_a_key_by_which_changes_are_partitioned_names_their_entity() -> None:
    keyed = change("customer version", partition_key_fields=["customer"])

    assert broken(keyed) == []
    assert "entity-key" in dict(broken(keyed | {"partition_strategy": "random"}))
