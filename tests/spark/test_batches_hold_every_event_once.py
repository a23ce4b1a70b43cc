import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from penstock.client import Client
from penstock.core.event import EVENT_BYTES_MAX, NewEvent
from penstock.testing.live_hub import LiveHub

Publish = Callable[[range], None]


def load(spark: SparkSession, options: dict[str, str], **more: str) -> DataFrame:
    return spark.read.format("penstock").options(**(options | more)).load()


def numbers(rows: DataFrame) -> list[int]:
    return sorted(json.loads(row["data"])["n"] for row in rows.select("data").collect())


def test_every_event_is_read_once_by_a_source_that_nobody_registered(
    spark: SparkSession, options: dict[str, str], publish: Publish
) -> None:
    publish(range(1000))

    assert numbers(load(spark, options)) == list(range(1000))


def test_a_row_is_the_event_with_its_place_and_time(
    spark: SparkSession, options: dict[str, str], event_type: str, client: Client
) -> None:
    client.publish(
        event_type, NewEvent(b'{"order_id": 7}', key="k7", partition=1, headers={"ce_type": "order.cancelled"})
    )
    client.publish(event_type, NewEvent(b'{"order_id": 8}', key="k7", partition=1))

    first, second = load(spark, options).orderBy("offset").collect()

    assert first.asDict() | {"received_at": None} == {
        "event_type": event_type,
        "partition": 1,
        "offset": 0,
        "key": "k7",
        "data": '{"order_id": 7}',
        "received_at": None,
        "kind": "order.cancelled",
    }
    assert second["kind"] == event_type
    assert 0 <= (datetime.now(UTC).replace(tzinfo=None) - first["received_at"]).total_seconds() < 600


def test_headers_are_a_map_where_they_are_wanted(
    spark: SparkSession, options: dict[str, str], event_type: str, client: Client
) -> None:
    client.publish(event_type, NewEvent(b'{"order_id": 7}', key="k7", partition=1, headers={"tenant": "blue"}))

    [row] = load(spark, options, includeHeaders="true").collect()

    assert row["headers"]["tenant"] == "blue"
    assert row["headers"]["ce_partitionkey"] == "k7"


def test_several_event_types_are_read_together(
    spark: SparkSession, options: dict[str, str], event_type: str, client: Client, publish: Publish
) -> None:
    other = f"{event_type}.other"
    client.create_event_type(other, partition_count=1)
    client.publish(other, ({"n": number} for number in range(100, 130)))
    publish(range(100))

    rows = load(spark, options, eventType=f"{event_type}, {other}")

    assert numbers(rows) == list(range(130))
    counts = {row["event_type"]: row["count"] for row in rows.groupBy("event_type").count().collect()}
    assert counts == {event_type: 100, other: 30}


def test_a_batch_begins_and_ends_where_it_is_told(
    spark: SparkSession, options: dict[str, str], event_type: str, publish: Publish
) -> None:
    publish(range(100))
    start, end = {event_type: {"0": 10}}, {event_type: {"0": 20, "1": 5}}

    rows = load(spark, options, startingOffsets=json.dumps(start), endingOffsets=json.dumps(end)).collect()

    assert sorted((row["partition"], row["offset"]) for row in rows) == [
        *((0, offset) for offset in range(10, 20)),
        *((1, offset) for offset in range(5)),
    ]


def test_a_feed_without_events_is_a_table_without_rows(spark: SparkSession, options: dict[str, str]) -> None:
    assert load(spark, options).collect() == []


def test_a_large_partition_is_cut_into_as_many_tasks_as_are_asked_for(
    spark: SparkSession, options: dict[str, str], publish: Publish
) -> None:
    publish(range(9000))

    rows = load(spark, options, minPartitions="7")

    assert rows.rdd.getNumPartitions() >= 7
    assert numbers(rows) == list(range(9000))


def test_a_page_is_followed_by_the_next(spark: SparkSession, hub: LiveHub, client: Client, event_type: str) -> None:
    one = f"{event_type}.one"
    client.create_event_type(one, partition_count=1)
    client.publish(one, ({"n": number} for number in range(120_000)))

    rows = load(spark, {"url": hub.url, "eventType": one}, minPartitions="1")

    assert rows.rdd.getNumPartitions() == 1
    assert rows.selectExpr("count(DISTINCT offset)", "min(offset)", "max(offset)").first() == (120_000, 0, 119_999)


def test_a_query_may_ask_for_fewer_columns(spark: SparkSession, options: dict[str, str], publish: Publish) -> None:
    publish(range(10))

    rows = spark.read.format("penstock").options(**options).schema("data string, offset bigint").load()

    assert rows.columns == ["data", "offset"]
    assert numbers(rows) == list(range(10))


def test_sql_reads_a_feed_as_a_table(spark: SparkSession, options: dict[str, str], publish: Publish) -> None:
    publish(range(10))
    given = ", ".join(f"{name} '{value}'" for name, value in options.items())

    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING penstock OPTIONS ({given})")

    assert spark.sql("SELECT count(*) FROM orders").first() == (10,)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"startingOffsets": "newest"},
            "option startingOffsets is 'newest'; allowed: earliest, latest, a time such as",
        ),
        ({"startingOffset": "earliest"}, "there is no option 'startingoffset'"),
        ({"url": "localhost"}, "option url is 'localhost'; allowed: .* such as http://localhost"),
        ({"startingOffsets": "latest", "endingOffsets": "latest"}, "option endingOffsets is 'latest'"),
    ],
)
def test_a_bad_option_is_refused_before_anything_runs(
    spark: SparkSession, options: dict[str, str], given: dict[str, str], said: str
) -> None:
    with pytest.raises(AnalysisException, match=said):
        load(spark, options, **given)


def test_a_missing_event_type_is_named(spark: SparkSession, options: dict[str, str]) -> None:
    with pytest.raises(Exception, match=r"there is no event type 'order\.lost'"):
        load(spark, options, eventType="order.lost").collect()


def test_a_hub_that_cannot_be_reached_is_an_error_in_bounded_time(spark: SparkSession, options: dict[str, str]) -> None:
    with pytest.raises(Exception, match=r"http://127\.0\.0\.1:9/.* cannot be reached"):
        load(spark, options, url="http://127.0.0.1:9", retrySeconds="0.5").collect()


def test_the_largest_event_is_a_row_with_what_the_hub_has_written(
    spark: SparkSession, hub: LiveHub, event_type: str, client: Client
) -> None:
    name = f"{event_type}.business"
    client.create_event_type(name, category="business")
    metadata = '"metadata":{"eid":"6f1b2f60-0000-4000-8000-000000000000","occurred_at":"2026-01-01T00:00:00Z"}'
    event = f'{{"text":"{"x" * (EVENT_BYTES_MAX - len(metadata) - 12)}",{metadata}}}'.encode()
    assert len(event) == EVENT_BYTES_MAX
    client.publish(name, event)

    [row] = load(spark, {"url": hub.url, "eventType": name}, includeHeaders="true").collect()

    assert len(row["data"]) > EVENT_BYTES_MAX
    assert json.loads(row["data"])["metadata"]["event_type"] == name
    assert row["headers"]["ce_type"] == name
