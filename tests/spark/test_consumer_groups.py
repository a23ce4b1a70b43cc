"""A stream with a consumer group is shown at the hub with its gap, and goes on where the group is reset to."""

import itertools
import time
from collections.abc import Callable

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadMaxRows

from penstock.client import Client, NewPosition, PositionReset
from penstock.spark.columns import choose_columns, source_schema
from penstock.spark.mirror import LOOK_INTERVAL
from penstock.spark.options import parse_options
from penstock.spark.stream import FeedStreamReader
from tests.exhaustive import exhaustive
from tests.spark.queries import Query
from tests.spark.recording import wait_for

Publish = Callable[[range], None]
_numbers = itertools.count()


@pytest.fixture
def group() -> str:
    return f"lake-{next(_numbers)}"


@pytest.fixture
def query(query: Query, group: str) -> Query:
    query.options["consumerGroup"] = group
    return query


def positions(client: Client, group: str) -> list[tuple[int, int, int]]:
    """Partition, position and gap of each partition."""
    return [(each.partition, each.offset, each.gap) for each in client.consumer_group(group).positions]


def test_stream_is_shown_with_its_gap_and_goes_on_once_where_it_is_reset_to(
    query: Query, client: Client, group: str, publish: Publish, event_type: str
) -> None:
    publish(range(10))
    query.run()
    assert [each.kind for each in client.consumer_groups() if each.name == group] == ["spark"]
    assert positions(client, group) == [(0, 5, 0), (1, 5, 0)]
    publish(range(10, 12))
    assert positions(client, group) == [(0, 5, 1), (1, 5, 1)]
    client.reset_positions(group, [PositionReset(event_type, 1, to="earliest")], reason="lost")

    query.run()
    again = [(0, 5), *[(1, offset) for offset in range(6)]]
    assert query.batches[-1] == (1, again)
    publish(range(12, 14))
    query.forget_commit(1)
    query.run()
    assert query.batches[-2:] == [(1, again), (2, [(0, 6), (1, 6)])], "the batch that is run again is the same"
    query.run()
    assert len(query.batches) == 4
    assert positions(client, group) == [(0, 7, 0), (1, 7, 0)]


@pytest.mark.exhaustive
def test_running_stream_goes_on_where_it_is_reset_to(
    query: Query, client: Client, group: str, publish: Publish, event_type: str
) -> None:
    publish(range(10))
    running = query.start(maxEventsPerTrigger="4")
    try:
        running.processAllAvailable()
        assert len(query.places) == 10
        client.reset_positions(group, to="earliest", reason="again")
        wait_for(lambda: len(query.places) == 20)
        client.reset_positions(group, [PositionReset(event_type, 0, offset=2)], reason="some")
        wait_for(lambda: len(query.places) == 23)
    finally:
        running.stop()

    assert len(query.places) == 23
    assert [each.reason for each in client.group_history(group)] == ["some", "again", "again"]


@pytest.mark.parametrize("follows", [exhaustive(False), True])
def test_reset_to_the_end_is_no_loss_after_the_end_was_looked_up(
    client: Client, options: dict[str, str], group: str, publish: Publish, follows: bool
) -> None:
    publish(range(10))
    chosen = parse_options(options | {"consumerGroup": group})
    reader = FeedStreamReader(chosen, choose_columns(source_schema(chosen), chosen), {})
    start = reader.initialOffset()
    if not follows:
        reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, ReadMaxRows(1000))
    publish(range(10, 16))
    client.reset_positions(group, to="latest", reason="over")
    time.sleep(LOOK_INTERVAL)

    end = reader.latestOffset(end, ReadMaxRows(1000))

    place = end[options["eventType"]]
    assert (place["0"], place["1"]) == (8, 8)
    assert reader.partitions(end, end) == []


@pytest.mark.exhaustive
def test_query_applies_resets_made_while_it_ran_without_its_group(
    query: Query, client: Client, group: str, publish: Publish
) -> None:
    publish(range(10))
    query.run()
    del query.options["consumerGroup"]
    publish(range(10, 12))
    query.run()
    client.reset_positions(group, to="earliest", reason="again")

    query.options["consumerGroup"] = group
    query.run()

    assert len(query.places) == 12 + 12


def test_group_of_another_kind_of_consumer_is_refused(
    query: Query, client: Client, group: str, publish: Publish, event_type: str
) -> None:
    publish(range(2))
    client.commit_positions(group, [NewPosition(event_type, 0, 1)], kind="processor")

    with pytest.raises(StreamingQueryException, match=group):
        query.run()
