"""A stream of format("penstock") reads each event of a feed once, run after run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive
from tests.spark.events import remove_before
from tests.spark.queries import Query, offsets_in

Publish = Callable[[range], None]


def places_in(client: Client, event_type: str) -> list[tuple[int, int]]:
    return [(held.partition, offset) for held in client.partitions(event_type) for offset in range(held.head)]


@pytest.fixture
def recreate(client: Client, event_type: str) -> Callable[[], None]:
    """Deletes the event type and creates it again."""

    def recreating() -> None:
        client.delete_event_type(event_type)
        client.create_event_type(event_type, partition_count=2, partition_strategy="user_defined")

    return recreating


@pytest.fixture
def other(client: Client, event_type: str) -> str:
    """Another event type, with one partition."""
    client.create_event_type(f"{event_type}.other", partition_count=1)
    return f"{event_type}.other"


def test_stream_reads_in_limited_batches_and_goes_on_after_a_restart(
    query: Query, client: Client, event_type: str, publish: Publish
) -> None:
    publish(range(250))
    progress = query.run(maxEventsPerTrigger="100")
    assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [100, 100, 50]
    end = {"epoch": 1, "0": 50, "1": 50, "from": {"epoch": 1, "0": 0, "1": 0}}
    assert offsets_in(progress[0]) == {event_type: end}
    assert offsets_in(progress[0], "latestOffset") == {event_type: {"epoch": 1, "0": 125, "1": 125}}
    publish(range(250, 280))

    query.run()
    query.run()

    assert [len(places) for _, places in query.batches] == [100, 100, 50, 30]
    assert query.places == places_in(client, event_type)


def test_new_stream_without_starting_offsets_reads_what_is_published_later(
    spark: SparkSession, options: dict[str, str], publish: Publish, tmp_path: Path
) -> None:
    publish(range(10))
    rows = spark.readStream.format("penstock").options(**options).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(processingTime="0 seconds").start(str(tmp_path / "rows"))
    try:
        query.processAllAvailable()
        publish(range(10, 14))
        query.processAllAvailable()
    finally:
        query.stop()

    assert spark.read.parquet(str(tmp_path / "rows")).count() == 4


@pytest.mark.exhaustive
def test_events_published_while_available_events_are_read_are_left_for_the_next_run(
    query: Query, publish: Publish
) -> None:
    publish(range(20))

    class Interrupting(list[Any]):
        def append(self, batch: Any) -> None:
            super().append(batch)
            publish(range(10))

    query.batches = Interrupting()
    query.run(maxEventsPerTrigger="5")

    assert sum(len(places) for _, places in query.batches) == 20


@pytest.mark.parametrize(
    ("where", "number"), [("latest", 1), exhaustive("earliest", 0), exhaustive("earliest", 1), exhaustive("latest", 0)]
)
def test_micro_batch_that_is_run_again_has_the_same_rows(
    query: Query, publish: Publish, where: str, number: int
) -> None:
    publish(range(50))
    query.run(startingOffsets=where)
    publish(range(50, 80))
    if number == 1:
        query.run(startingOffsets=where)
        publish(range(80, 90))
    before = query.batches[-1]

    query.forget_commit(number)
    query.run(startingOffsets=where)

    after = [places for batch, places in query.batches if batch == number]
    assert before[0] == number
    assert after == [before[1], before[1]]
    assert query.batches[-1][0] == number + 1, "and then it goes on"
    assert len(query.batches[-1][1]) == (30 if number == 0 else 10)
    if where == "latest":
        assert len(query.places) == (30 if number == 0 else 30 + 30 + 10), "without the first fifty"


@pytest.mark.exhaustive
def test_event_types_are_added_left_out_and_resumed(
    query: Query, client: Client, event_type: str, other: str, publish: Publish
) -> None:
    client.publish(other, ({"n": number} for number in range(40)))
    publish(range(10))
    both = f"{event_type},{other}"
    query.run()
    query.run(eventType=both)
    for number in (2, 3):
        client.publish(other, [{"n": number}])
        query.run(eventType=other)
    query.forget_commit(query.batches[-1][0])
    publish(range(10, 13))

    query.run(eventType=event_type)
    query.run(eventType=both)

    assert [len(places) for _, places in query.batches] == [10, 40, 1, 1, 1, 3], "one was run again"


def test_running_stream_waits_for_a_hub_that_is_killed_and_reads_all_that_comes(
    spark: SparkSession, own_hub: LiveHub, tmp_path: Path
) -> None:
    query = Query(spark, {"url": own_hub.url, "eventType": "order.placed"}, tmp_path)
    with Client(own_hub.url) as client:
        client.create_event_type("order.placed", partition_count=2)
        client.publish("order.placed", ({"n": number} for number in range(10)))
        running = query.start()
        try:
            running.processAllAvailable()
            assert len(query.places) == 10
            own_hub.kill()
            own_hub.start()
            client.publish("order.placed", ({"n": number} for number in range(7)))
            running.processAllAvailable()
        finally:
            running.stop()

        assert query.places == places_in(client, "order.placed")
    own_hub.stop()
    with pytest.raises(StreamingQueryException, match=r"http://127\.0\.0\.1:.* cannot be reached: .*refused"):
        query.run(retryTimeout="0.5 seconds")


def test_stream_fails_at_events_removed_by_retention_unless_loss_is_allowed(
    query: Query, hub: LiveHub, event_type: str, publish: Publish
) -> None:
    publish(range(20))
    query.run()
    publish(range(20))
    remove_before(hub, event_type, 15)

    with pytest.raises(StreamingQueryException, match=r"5 events of .*, partition 0, can no longer be read: retention"):
        query.run()
    query.run(failOnDataLoss="false")

    assert query.batches[-1][1] == [
        *((0, offset) for offset in range(15, 20)),
        *((1, offset) for offset in range(10, 20)),
    ]


def test_stream_fails_at_a_feed_created_again_unless_loss_is_allowed(
    query: Query, publish: Publish, recreate: Callable[[], None]
) -> None:
    publish(range(20))
    query.run()
    recreate()
    publish(range(40))

    with pytest.raises(StreamingQueryException, match=r"was created again, .*: its epoch was 1 and is 2 now"):
        query.run()
    query.run(failOnDataLoss="false")
    assert [len(places) for _, places in query.batches] == [20, 40]
