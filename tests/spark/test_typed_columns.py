"""Events as typed columns of the registry's schemas: nothing is lost, and a query keeps its columns."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import httpx2
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive
from tests.spark.queries import Query

SCHEMA: dict[str, Any] = {
    "properties": {
        "order_id": {"type": "integer"},
        "total": {"type": "string", "format": "decimal"},
        "placed_at": {"type": "string", "format": "date-time"},
        "due": {"type": ["string", "null"], "format": "date"},
        "gift": {"type": "boolean"},
        "lines": {"type": "array", "items": {"properties": {"sku": {"type": "string"}, "count": {"type": "number"}}}},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
    }
}
WITH_NOTE = {"properties": SCHEMA["properties"] | {"note": {"type": "string"}}}
ORDER = {
    "order_id": 7, "total": "12.50", "placed_at": "2026-11-20T10:00:00+01:00", "due": "2026-12-24", "gift": True,
    "lines": [{"sku": "a", "count": 2}, {"sku": "b"}], "tags": {"by": "web"},
}  # fmt: skip
TYPED = "order_id:bigint,total:decimal(38,18),placed_at:timestamp,due:date,gift:boolean,"
TYPED += "lines:array<struct<sku:string,count:double>>,tags:map<string,string>"


@pytest.fixture
def event_type(client: Client, event_type: str) -> str:
    """An event type with a schema that events need not fit."""
    name = f"{event_type}-typed"
    client.create_event_type(
        name, partition_count=2, partition_strategy="user_defined", schema=SCHEMA, compatibility_mode="none"
    )
    return name


def publish(client: Client, event_type: str, *orders: dict[str, Any]) -> None:
    client.publish(event_type, [NewEvent(json.dumps(order).encode(), partition=0) for order in orders])


def add_note(hub: LiveHub, event_type: str) -> None:
    """Add a member to the schema."""
    added = {"type": "json_schema", "schema": json.dumps(WITH_NOTE)}
    httpx2.post(f"{hub.url}/event-types/{event_type}/schemas", json=added).raise_for_status()


def table(spark: SparkSession, options: dict[str, str], **more: str) -> DataFrame:
    return spark.read.format("penstock").options(**(options | {"payload": "typed"} | more)).load()


def test_members_are_columns_of_their_types_beside_the_json(
    spark: SparkSession, client: Client, options: dict[str, str], event_type: str
) -> None:
    publish(client, event_type, ORDER, {"order_id": 8, "due": None})

    orders = table(spark, options, payload="both")
    first, second = orders.orderBy("offset").select("data.*", "rescued_data", "json").collect()

    assert orders.schema["data"].dataType.simpleString() == f"struct<{TYPED}>"
    assert first.asDict(recursive=True) | {"json": json.loads(first["json"])} == {
        "order_id": 7,
        "total": Decimal("12.5"),
        "placed_at": datetime(2026, 11, 20, 9, tzinfo=UTC).replace(tzinfo=None),
        "due": date(2026, 12, 24),
        "gift": True,
        "lines": [{"sku": "a", "count": 2.0}, {"sku": "b", "count": None}],
        "tags": {"by": "web"},
        "rescued_data": None,
        "json": ORDER,
    }
    assert {*second} == {8, None, '{"order_id": 8, "due": null}'}


def test_values_without_a_fitting_column_are_rescued(
    spark: SparkSession, client: Client, options: dict[str, str], event_type: str
) -> None:
    publish(client, event_type, *[ORDER | {"order_id": number} for number in range(300)])
    publish(client, event_type, {"order_id": 300, "total": "12.50", "note": "ring twice", "more": {"n": [1]}})
    small = "data struct<order_id: smallint, total: boolean>, rescued_data string"

    rows = spark.read.format("penstock").options(**options, payload="typed").schema(small).load()
    read = rows.orderBy("data.order_id").collect()

    assert [row["data"] for row in read] == [Row(order_id=number, total=None) for number in range(301)]
    assert json.loads(read[300]["rescued_data"]) == {"total": "12.50", "note": "ring twice", "more": {"n": [1]}}
    assert json.loads(read[7]["rescued_data"]) == {name: value for name, value in ORDER.items() if name != "order_id"}


@pytest.mark.parametrize("category", ["business", "data"])
def test_metadata_of_the_hub_is_columns(
    spark: SparkSession, client: Client, options: dict[str, str], event_type: str, category: str
) -> None:
    name = f"{event_type}.{category}"
    client.create_event_type(name, category=category, partition_strategy="user_defined", schema=SCHEMA)
    metadata = {"eid": "105a76d8-db49-4144-ace7-e683e8f4ba46", "occurred_at": "2026-11-20T10:00:00Z"}
    event = ORDER if category == "business" else {"data_type": "order", "data_op": "C", "data": ORDER}
    publish(client, name, event | {"metadata": metadata})

    [row] = table(spark, options, eventType=name).collect()

    order = row["data"] if category == "business" else row["data"]["data"]
    assert (order["order_id"], order["total"]) == (7, Decimal("12.5"))
    assert row["data"]["metadata"]["eid"] == metadata["eid"]
    assert row["data"]["metadata"]["received_at"] is not None
    assert row["data"]["metadata"]["version"] == "1.0.0"
    assert row["rescued_data"] is None


@pytest.mark.exhaustive
def test_stream_keeps_its_columns_until_another_schema_version_is_chosen(
    client: Client, event_type: str, query: Query, hub: LiveHub
) -> None:
    typed = {"payload": "typed"}
    publish(client, event_type, ORDER)
    query.run(**typed)
    add_note(hub, event_type)
    publish(client, event_type, ORDER | {"note": "ring twice"})

    with pytest.raises(StreamingQueryException, match=r"schemaEvolution is 'pinned'.* was 1\.0\.0 when .* is 1\.1\.0"):
        query.run(**typed)
    assert len(query.places) == 1

    query.run(**typed, schemaVersion="1.0.0")
    assert query.columns[-1] == TYPED
    publish(client, event_type, ORDER | {"note": "no, thrice"})
    query.run(**typed, schemaEvolution="latest")
    assert query.columns[-1] == f"{TYPED},note:string"
    publish(client, event_type, ORDER)
    query.run(**typed)
    assert len(query.places) == 4


@pytest.mark.parametrize("number", [exhaustive(0), 1])
def test_micro_batch_that_is_run_again_keeps_its_columns(
    client: Client, event_type: str, query: Query, hub: LiveHub, number: int
) -> None:
    for _ in range(number + 1):
        publish(client, event_type, ORDER)
        query.run(payload="typed")
    add_note(hub, event_type)
    query.forget_commit(number)

    with pytest.raises(StreamingQueryException, match="schemaEvolution is 'pinned'"):
        query.run(payload="typed")
    query.run(payload="typed", schemaVersion="1.0.0")

    assert len(query.batches) == number + 2
    assert set(query.columns) == {TYPED}


def test_times_are_offsets_to_begin_and_end_at(
    spark: SparkSession, client: Client, options: dict[str, str], event_type: str
) -> None:
    for number in range(4):
        publish(client, event_type, {"order_id": number})
    times = [row["received_at"] for row in table(spark, options).orderBy("offset").collect()]
    middle = f"{times[2].isoformat(timespec='microseconds')}Z"

    def orders(**limits: str) -> set[int]:
        return {row["data"]["order_id"] for row in table(spark, options, **limits).collect()}

    assert orders(startingOffsets=middle) == {2, 3}
    assert orders(endingOffsets=middle) == {0, 1}
    assert orders(startingOffsets=json.dumps({event_type: middle}), endingOffsets="2100-01-01T00:00:00Z") == {2, 3}
    assert orders(startingOffsets="2100-01-01T00:00:00Z") == set()
