"""format("penstock") is written: columns become events, and each write is in the feed once."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, create_map, lit, struct, to_json

from penstock.client import Client
from penstock.storage import open_store
from penstock.testing.live_hub import LiveHub

SCHEMA = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def event_type(client: Client, event_type: str) -> str:
    """An event type with a schema, whose partitions are those of the keys."""
    name = f"{event_type}-written"
    client.create_event_type(
        name, partition_count=2, partition_strategy="hash", partition_key_fields=["n"], schema=SCHEMA
    )
    return name


Write = Callable[..., None]


@pytest.fixture
def write(options: dict[str, str]) -> Write:
    def writing(rows: DataFrame, **more: str) -> None:
        rows.write.format("penstock").mode("append").options(**(options | more)).save()

    return writing


@pytest.fixture
def numbers(spark: SparkSession) -> DataFrame:
    """A thousand rows in four partitions."""
    return spark.range(0, 1_000, 1, 4).withColumnRenamed("id", "n")


def events(spark: SparkSession, options: dict[str, str], **more: str) -> list[dict[str, Any]]:
    rows = spark.read.format("penstock").options(**(options | more)).load().collect()
    return [{**row.asDict(), "data": json.loads(row["data"])} for row in rows]


@pytest.mark.parametrize("is_struct", [True, False], ids=["struct", "JSON"])
def test_rows_are_events(
    spark: SparkSession, options: dict[str, str], numbers: DataFrame, write: Write, *, is_struct: bool
) -> None:
    made = struct("n", lit(None).cast("string").alias("none"), lit("é").alias("text"))
    write(numbers.select((made if is_struct else to_json(made)).alias("data")))

    found = [event["data"] for event in events(spark, options)]

    assert sorted(event["n"] for event in found) == [*range(1_000)]
    assert found[0].keys() == {"n", "text"}


def test_key_and_headers_go_with_them(
    spark: SparkSession, options: dict[str, str], numbers: DataFrame, write: Write
) -> None:
    write(
        numbers.limit(10).select(
            struct("n").alias("data"),
            (col("n") % 2).cast("string").alias("key"),
            create_map(lit("ce_source"), lit("spark")).alias("headers"),
        )
    )

    found = events(spark, options, includeHeaders="true")

    assert {event["key"] for event in found} == {"0", "1"}
    assert len({(event["key"], event["partition"]) for event in found}) == 2, "a key is in one partition"
    assert {event["headers"]["ce_source"] for event in found} == {"spark"}


def test_business_events_are_completed(
    spark: SparkSession, client: Client, options: dict[str, str], numbers: DataFrame, write: Write
) -> None:
    name = f"{options['eventType']}.business"
    client.create_event_type(name, category="business", schema=SCHEMA)
    metadata = struct(
        lit("105a76d8-db49-4144-ace7-e683e8f4ba46").alias("eid"), lit("2026-11-20T10:00:00Z").alias("occurred_at")
    )
    write(numbers.limit(3).select(struct("n").alias("data"), metadata.alias("metadata")), eventType=name)

    found = [event["data"] for event in events(spark, options, eventType=name)]

    assert sorted(event["n"] for event in found) == [0, 1, 2]
    assert all(event["metadata"]["event_type"] == name and event["metadata"]["received_at"] for event in found)


def test_a_row_that_is_no_valid_event_fails_the_write_and_nothing_is_published(
    spark: SparkSession, options: dict[str, str], numbers: DataFrame, write: Write
) -> None:
    wrong = numbers.selectExpr('CASE WHEN n = 777 THEN \'{"n": "x"}\' ELSE to_json(struct(n)) END AS data')

    with pytest.raises(Exception, match=r"a row is no valid event of .*#/n: .*; it begins") as refused:
        write(wrong)

    assert '{"n": "x"}' in str(refused.value)
    assert events(spark, options) == []


def test_rows_that_are_no_valid_events_may_be_set_apart(
    spark: SparkSession, options: dict[str, str], numbers: DataFrame, write: Write, hub: LiveHub
) -> None:
    wrong = numbers.selectExpr(
        "CASE n % 100 WHEN 7 THEN '{\"n\": \"x\"}' WHEN 8 THEN '{' WHEN 9 THEN NULL ELSE to_json(struct(n)) END AS data"
    )
    write(wrong, onInvalid="reject")

    assert len(events(spark, options)) == 970
    store = open_store(hub.database)
    with store.read() as tx:
        rejected = tx.rejected.list(100, event_type=options["eventType"])
    store.close()
    assert len(rejected) == 30
    assert {row.data for row in rejected} == {'{"n": "x"}', '"{"', "null"}


def test_a_batch_that_is_named_is_published_once(
    spark: SparkSession, options: dict[str, str], numbers: DataFrame, write: Write
) -> None:
    named = {"producerGroup": f"nightly-{options['eventType']}", "batchId": "20261120"}
    data = numbers.select(struct("n").alias("data"))
    for _ in range(2):
        write(data, **named)
    assert len(events(spark, options)) == 1_000

    write(data, **(named | {"batchId": "20261121"}))
    assert len(events(spark, options)) == 2_000
    with pytest.raises(Exception, match="comes too late"):
        write(data, **(named | {"batchId": "20261119"}))


def test_an_event_type_that_there_is_not_is_told(numbers: DataFrame, write: Write) -> None:
    with pytest.raises(Exception, match=r"there is no event type 'nobody\.s'"):
        write(numbers.select(struct("n").alias("data")), eventType="nobody.s")


def test_nothing_is_written_over(options: dict[str, str], numbers: DataFrame) -> None:
    data = numbers.select(struct("n").alias("data"))
    with pytest.raises(Exception, match="what is in a feed stays"):
        data.write.format("penstock").mode("overwrite").options(**options).save()
