"""format("penstock") reads a feed as a table, each event once."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count

import httpx2
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, GreaterThanOrEqual, InputPartition
from pyspark.sql.functions import spark_partition_id
from pyspark.sql.types import StructType

from penstock.client import Client
from penstock.core.events.event import EVENT_BYTES_MAX, NewEvent
from penstock.testing.live_hub import LiveHub
from tests.spark.events import remove_before
from tests.spark.queries import Query

Publish = Callable[[range], None]
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def load(spark: SparkSession, options: dict[str, str], **more: str) -> DataFrame:
    return spark.read.format("penstock").options(**(options | more)).load()


def numbers(rows: DataFrame) -> list[int]:
    return sorted(json.loads(row["data"])["n"] for row in rows.select("data").collect())


def test_row_is_an_event_with_its_place_kind_key_time_and_headers(
    spark: SparkSession, options: dict[str, str], event_type: str, client: Client
) -> None:
    cancelled = NewEvent(b'{"n": 7}', key="k7", partition=1, headers={"ce_type": "order.cancelled", "tenant": "blue"})
    client.publish(event_type, cancelled)
    client.publish(event_type, NewEvent(b'{"n": 8}', key="k7", partition=1))

    rows = load(spark, options, includeHeaders="true").orderBy("offset").collect()

    columns = ["event_type", "partition", "offset", "key", "data", "kind"]
    assert [[row[name] for name in columns] for row in rows] == [
        [event_type, 1, 0, "k7", '{"n": 7}', "order.cancelled"], [event_type, 1, 1, "k7", '{"n": 8}', event_type],
    ]  # fmt: skip
    first, headers = rows[0], rows[0]["headers"]
    assert (headers["tenant"], headers["ce_partitionkey"]) == ("blue", "k7")
    assert 0 <= (datetime.now(UTC).replace(tzinfo=None) - first["received_at"]).total_seconds() < 600


def test_several_event_types_are_one_table_between_given_offsets(
    spark: SparkSession, options: dict[str, str], event_type: str, client: Client, publish: Publish
) -> None:
    other = f"{event_type}.other"
    client.create_event_type(other, partition_count=1)
    client.publish(other, ({"n": number} for number in range(100, 130)))
    publish(range(100))
    start, end = {event_type: {"0": 10}}, {event_type: {"0": 20, "1": 5}}

    both = f"{event_type}, {other}"
    rows = load(spark, options, eventType=both, startingOffsets=json.dumps(start), endingOffsets=json.dumps(end))

    assert sorted((row["event_type"], row["partition"], row["offset"]) for row in rows.collect()) == [
        *((event_type, 0, offset) for offset in range(10, 20)),
        *((event_type, 1, offset) for offset in range(5)),
        *((other, 0, offset) for offset in range(30)),
    ]


def test_large_partitions_are_cut_into_as_many_tasks_as_asked_for(
    spark: SparkSession, options: dict[str, str], publish: Publish
) -> None:
    publish(range(9000))

    rows = load(spark, options, minPartitions="7").select("data", spark_partition_id().alias("task")).toPandas()

    assert rows["task"].nunique() >= 7
    assert sorted(json.loads(data)["n"] for data in rows["data"]) == [*range(9000)]


def test_query_names_the_columns_it_wants_and_sql_reads_a_feed(
    spark: SparkSession, options: dict[str, str], publish: Publish
) -> None:
    assert load(spark, options).collect() == [], "a feed without events is a table without rows"
    publish(range(10))
    chosen = spark.read.format("penstock").options(**options).schema("data string, offset bigint").load()

    assert chosen.columns == ["data", "offset"]
    assert numbers(chosen) == [*range(10)]
    given = ", ".join(f"{name} '{value}'" for name, value in options.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING penstock OPTIONS ({given})")
    assert spark.sql("SELECT count(*) FROM orders").first() == (10,)


def test_filters_on_one_table_leave_each_other_alone_where_push_down_is_on(
    spark: SparkSession, options: dict[str, str], publish: Publish
) -> None:
    publish(range(20))
    spark.conf.set(PUSH_DOWN, "true")
    try:
        rows = load(spark, options)
        even, odd = rows.where("partition = 0"), rows.where("partition = 1")

        assert (even.count(), rows.count(), odd.where("data LIKE '%9}'").count()) == (10, 20, 2)
        assert numbers(even.union(odd)) == [*range(20)]
        assert even.join(odd, "offset").count() == 10
    finally:
        spark.conf.unset(PUSH_DOWN)


def test_pyspark_reads_for_one_query_what_the_filters_of_another_left(spark: SparkSession) -> None:
    """Filters cannot be handed to the hub as long as this holds. Once it fails, they can: from that PySpark on."""

    class Reader(DataSourceReader):
        least = 0

        def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - It is Spark's name.
            self.least = max([0, *(each.value for each in filters if isinstance(each, GreaterThanOrEqual))])
            return filters

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(range(self.least, 10))]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            return ((number,) for number in partition.value)

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> str:
            return "n int"

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - There is one.
            return Reader()

    spark.dataSource.register(Numbers)
    spark.conf.set(PUSH_DOWN, "true")
    try:
        rows = spark.read.format("numbers").load()

        assert (rows.where("n >= 7").count(), rows.count()) == (3, 3), "right is (3, 10)"
    finally:
        spark.conf.unset(PUSH_DOWN)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"eventType": "order.lost"}, r"there is no event type 'order\.lost'"),
        ({"url": "http://127.0.0.1:9", "retryTimeout": "0.5 seconds"}, r"http://127\.0\.0\.1:9/.* cannot be reached"),
    ],
    ids=["event type", "hub"],
)
def test_table_that_cannot_be_read_is_an_error(
    spark: SparkSession, options: dict[str, str], given: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        load(spark, options, **given).collect()


def test_largest_event_is_a_row_with_the_metadata_of_the_hub(
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
    assert json.loads(row["data"])["metadata"]["event_type"] == row["headers"]["ce_type"] == name


def test_table_that_begins_at_removed_events_fails_unless_loss_is_allowed(
    spark: SparkSession, hub: LiveHub, options: dict[str, str], event_type: str, publish: Publish
) -> None:
    publish(range(20))
    remove_before(hub, event_type, 4)
    start = json.dumps({event_type: {"0": 1}})

    with pytest.raises(Exception, match=r"3 events of .*, partition 0, can no longer be read: retention"):
        load(spark, options, startingOffsets=start).collect()
    assert load(spark, options, startingOffsets=start, failOnDataLoss="false").count() == 16
    assert load(spark, options, startingOffsets="earliest").count() == 16


def test_batch_read_from_a_hub_that_is_killed_has_every_event_once(spark: SparkSession, own_hub: LiveHub) -> None:
    with Client(own_hub.url) as client:
        client.create_event_type("order.placed", partition_count=2)
        client.publish("order.placed", ({"n": number} for number in range(150_000)))
    rows = load(spark, {"url": own_hub.url, "eventType": "order.placed"})
    read: list[object] = []
    counting = rows.selectExpr("count(*)", "count(DISTINCT partition, offset)")
    reading = threading.Thread(target=lambda: read.append(counting.first()))

    reading.start()
    for _ in range(3):
        own_hub.kill()
        own_hub.start()
    reading.join(300)

    assert read == [(150_000, 150_000)]


def test_deleted_keys_of_a_compacted_feed_are_no_rows(
    spark: SparkSession, hub: LiveHub, client: Client, query: Query
) -> None:
    name, ids = "customer.state", count()
    client.create_event_type(name, category="business", cleanup_policy="compact")
    query.options["eventType"] = name

    def send(path: str, keys: range) -> None:
        events = [
            {
                "n": key,
                "metadata": {
                    "eid": f"00000000-0000-4000-8000-{next(ids):012}",
                    "occurred_at": "2026-11-20T10:00:00Z",
                    "partition_compaction_key": str(key),
                },
            }
            for key in keys
        ]
        assert httpx2.post(f"{hub.url}/event-types/{name}/{path}", json=events).status_code == 200

    send("events", range(300))
    send("deleted-events", range(0, 300, 2))
    query.run(maxEventsPerTrigger="150")
    send("deleted-events", range(300))
    send("events", range(300, 301))
    query.run(maxEventsPerTrigger="150")

    rows = load(spark, query.options).select("data", "offset").collect()
    assert [n for _, n in sorted((row["offset"], json.loads(row["data"])["n"]) for row in rows)] == [*range(301)]
    assert [offset for _, offset in query.places] == sorted(row["offset"] for row in rows)
