import json
import sqlite3
from collections.abc import Callable

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.testing.live_hub import LiveHub
from tests.spark.conftest import Query

Publish = Callable[[range], None]


@pytest.fixture
def retain(hub: LiveHub, event_type: str) -> Callable[[int], None]:
    """Removes the events before an offset of partition 0, as retention does."""

    def removing(floor: int) -> None:
        database = sqlite3.connect(hub.database.removeprefix("sqlite:///"), isolation_level=None)
        try:
            find = "SELECT id FROM penstock_event_type WHERE name = ?"
            [partition] = database.execute(
                f"SELECT id FROM penstock_partition WHERE number = 0 AND event_type_id = ({find})", [event_type]
            ).fetchone()
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE penstock_partition SET floor = ? WHERE id = ?", [floor, partition])
            database.execute('DELETE FROM penstock_event WHERE partition_id = ? AND "offset" < ?', [partition, floor])
            database.execute("COMMIT")
        finally:
            database.close()

    return removing


@pytest.fixture
def recreate(client: Client, event_type: str) -> Callable[[], None]:
    """Deletes the event type and creates it again."""

    def recreating() -> None:
        client.delete_event_type(event_type)
        client.create_event_type(event_type, partition_count=2, partition_strategy="user_defined")

    return recreating


def test_a_stream_fails_when_retention_was_faster(
    query: Query, publish: Publish, retain: Callable[[int], None]
) -> None:
    publish(range(20))
    query.run()
    publish(range(20))
    retain(15)

    with pytest.raises(StreamingQueryException, match=r"5 events of .*, partition 0, can no longer be read: retention"):
        query.run()


def test_a_stream_goes_on_behind_what_retention_removed_where_it_may(
    query: Query, publish: Publish, retain: Callable[[int], None]
) -> None:
    publish(range(20))
    query.run()
    publish(range(20))
    retain(15)

    query.run(failOnDataLoss="false")

    assert query.batches[-1][1] == [
        *((0, offset) for offset in range(15, 20)),
        *((1, offset) for offset in range(10, 20)),
    ]


def test_a_stream_fails_when_its_feed_was_created_again(
    query: Query, publish: Publish, recreate: Callable[[], None]
) -> None:
    publish(range(20))
    query.run()
    recreate()
    publish(range(40))

    with pytest.raises(StreamingQueryException, match=r"was created again, .*: its epoch was 1 and is 2 now"):
        query.run()


@pytest.mark.exhaustive
def test_a_stream_goes_on_with_a_feed_that_was_created_again_where_it_may(
    query: Query, publish: Publish, recreate: Callable[[], None]
) -> None:
    publish(range(20))
    query.run()
    recreate()
    publish(range(6))

    query.run(failOnDataLoss="false")
    query.run(failOnDataLoss="false")

    assert [len(places) for _, places in query.batches] == [20, 6]


@pytest.mark.exhaustive
def test_a_micro_batch_that_cannot_be_run_again_fails(
    query: Query, publish: Publish, retain: Callable[[int], None]
) -> None:
    publish(range(20))
    query.run()
    query.forget_commit(0)
    retain(3)

    with pytest.raises(StreamingQueryException, match=r"3 events of .*, partition 0, can no longer be read: retention"):
        query.run()
    query.run(failOnDataLoss="false")

    assert [len(places) for _, places in query.batches] == [20, 17]


def test_a_batch_that_begins_before_what_is_there_fails(
    spark: SparkSession, options: dict[str, str], event_type: str, publish: Publish, retain: Callable[[int], None]
) -> None:
    publish(range(20))
    retain(4)
    source = spark.read.format("penstock").options(**options)
    given = json.dumps({event_type: {"0": 1}})

    with pytest.raises(Exception, match=r"3 events of .*, partition 0, can no longer be read: retention"):
        source.option("startingOffsets", given).load().collect()
    assert source.option("startingOffsets", given).option("failOnDataLoss", "false").load().count() == 16
    assert source.option("startingOffsets", "earliest").load().count() == 16
