"""A batch that is written to format("penstock") becomes events, each of them once."""

from collections import Counter
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.client import Client
from penstock.core.events.partitioning import hash_partition
from penstock.storage import open_store
from penstock.testing.live_hub import LiveHub
from tests.spark.events import count_in, events_in, numbers_in

COUNT = 100
EID = "105a76d8-db49-4144-ace7-e683e8f4ba46"
SCHEMA = {"properties": {"n": {"type": "integer"}, "day": {"type": "string", "format": "date"}}, "required": ["n"]}
Write = Callable[..., None]


@pytest.fixture
def event_type(client: Client, event_type: str) -> str:
    """An event type with a schema, whose partitions are those of the keys."""
    name = f"{event_type}-written"
    client.create_event_type(
        name, partition_count=2, partition_strategy="hash", partition_key_fields=["n"], schema=SCHEMA
    )
    return name


@pytest.fixture
def write(options: dict[str, str]) -> Write:
    def writing(rows: DataFrame, **more: str) -> None:
        rows.write.format("penstock").mode("append").options(**(options | more)).save()

    return writing


@pytest.fixture
def numbers(spark: SparkSession) -> DataFrame:
    """A hundred rows in two partitions."""
    return spark.range(0, COUNT, 1, 2).withColumnRenamed("id", "n")


@pytest.mark.parametrize("data", ["{}", "to_json({})"], ids=["struct", "JSON"])
def test_rows_are_written_as_events_with_key_headers_and_metadata(
    client: Client, options: dict[str, str], numbers: DataFrame, write: Write, data: str
) -> None:
    name = f"{options['eventType']}.business"
    client.create_event_type(name, category="business", partition_count=2, partition_strategy="hash",
        partition_key_fields=["n"], schema=SCHEMA)  # fmt: skip
    columns = [
        data.format("named_struct('n', n, 'none', CAST(NULL AS string), 'text', 'é')") + " AS data",
        "CAST(n % 2 AS string) AS key",
        "map('ce_source', 'spark') AS headers",
        f"named_struct('eid', '{EID}', 'occurred_at', '2026-11-20T10:00:00Z') AS metadata",
    ]
    write(numbers.selectExpr(*columns), eventType=name)

    found = events_in(client, name)
    assert sorted(event.data["n"] for event in found) == [*range(COUNT)]
    for event in found:
        assert event.data.keys() == {"n", "text", "metadata"}
        assert event.data["metadata"]["event_type"] == name
        assert event.headers["ce_source"] == "spark"
        assert event.headers["ce_partitionkey"] == str(event.data["n"] % 2)
    partitions = {(event.headers["ce_partitionkey"], event.partition) for event in found}
    assert len(partitions) == 2, "a key is in one partition"


def test_row_that_is_no_valid_event_fails_the_write_and_nothing_is_published(
    client: Client, options: dict[str, str], numbers: DataFrame, write: Write
) -> None:
    wrong = numbers.selectExpr('CASE WHEN n = 77 THEN \'{"n": "x"}\' ELSE to_json(struct(n)) END AS data')

    with pytest.raises(Exception, match=r"a row is no valid event of .*#/n: .*; it begins") as refused:
        write(wrong)

    assert '{"n": "x"}' in str(refused.value)
    assert count_in(client, options["eventType"]) == 0


def test_rows_that_are_no_valid_events_are_rejected_with_their_reasons(
    client: Client, hub: LiveHub, options: dict[str, str], numbers: DataFrame, write: Write
) -> None:
    texts = numbers.selectExpr(
        "CASE n % 50 WHEN 7 THEN '{\"n\": \"x\"}' WHEN 8 THEN '{' WHEN 9 THEN NULL ELSE to_json(struct(n)) END AS data"
    )
    structs = numbers.sparkSession.sql(
        "SELECT named_struct('n', n, 'day', date_add(date'9999-12-31', n), 's', IF(n = 4, CAST(X'ff' AS string), NULL))"
        " AS data, IF(n = 2, CAST(X'ff' AS string), NULL) AS key,"
        " IF(n = 3, map('h', CAST(NULL AS string)), NULL) AS headers FROM VALUES (0), (1), (2), (3), (4) AS t(n)"
    )
    for rows in (texts, structs):
        write(rows, onInvalid="reject")

    published = numbers_in(client, options["eventType"])
    assert published == Counter([0, *(n for n in range(COUNT) if n % 50 not in (7, 8, 9))])
    store = open_store(hub.database)
    with store.read() as tx:
        rejected = sorted(row.data for row in tx.outbox.list_rejected(100, event_type=options["eventType"]))
    store.close()
    assert rejected[0].startswith("\"its header 'h' is null")
    assert rejected[1].startswith('"its key is not UTF-8')
    assert rejected[2:] == [
        '"{"', '"{"', "null", "null", '{"n": "x"}', '{"n": "x"}',
        '{"n":1,"day":"+10000-01-01"}', '{"n":4,"day":"+10000-01-04","s":"\\xff"}',
    ]  # fmt: skip


def test_batch_with_a_batch_id_is_published_once(
    client: Client, options: dict[str, str], numbers: DataFrame, write: Write
) -> None:
    name, data = options["eventType"], numbers.selectExpr("struct(n) AS data")
    for batch, count in (("20261120", COUNT), ("20261120", COUNT), ("20261121", 2 * COUNT)):
        write(data, producerGroup=f"nightly-{name}", batchId=batch)
        assert count_in(client, name) == count

    with pytest.raises(Exception, match="is too late"):
        write(data, producerGroup=f"nightly-{name}", batchId="20261119")


def test_rows_sorted_by_key_keep_their_order_in_the_feed(
    spark: SparkSession, client: Client, event_type: str, write: Write
) -> None:
    target = f"{event_type}.job"
    client.create_event_type(target, partition_count=3, partition_strategy="hash", partition_key_fields=["k"])
    rows = spark.range(500).selectExpr("-id AS at", "named_struct('n', id, 'k', concat('k', id % 10)) AS data")
    data = rows.repartition(4, "data.k").sortWithinPartitions("at").select("data")
    for _ in range(2):
        write(data, eventType=target, producerGroup="job", batchId="7")

    events = events_in(client, target)
    assert len(events) == 500
    for key in range(10):
        numbers = [event.data["n"] for event in events if event.data["k"] == f"k{key}"]
        assert numbers == sorted(numbers, reverse=True)
    assert all(event.partition == hash_partition((event.data["k"],), 3) for event in events)


def test_typed_rows_are_written_back_to_their_event_type(
    spark: SparkSession, client: Client, options: dict[str, str], write: Write
) -> None:
    name = f"{options['eventType']}.amounts"
    amount, number = {"type": "string", "format": "decimal"}, {"type": "number", "format": "decimal"}
    members = {
        "total": amount, "net": number, "lines": {"type": "array", "items": {"properties": {"price": amount}}},
        "by_zip": {"type": "object", "additionalProperties": amount}, "at": {"type": "string", "format": "date-time"},
    }  # fmt: skip
    client.create_event_type(name, schema={"properties": members})
    event = {"total": "12.50", "net": 3.5, "lines": [{"price": "0.00000001"}, {}], "by_zip": {"1": "-1e3"}}
    client.publish(name, [event | {"at": "2026-11-20T10:00:00.123456+01:00"}])
    there = options | {"eventType": name}
    read = spark.read.format("penstock").options(**there, payload="typed").load()

    write(read.select("data"), eventType=name)

    written = {"total": "12.5", "net": 3.5, "lines": [{"price": "0.00000001"}, {}], "by_zip": {"1": "-1000"}}
    again = [each.data for each in events_in(client, name)]
    assert again[1:] == [written | {"at": "2026-11-20T09:00:00.123456Z"}]
