"""A stream with a consumer group: seen at the hub beside everyone else, and moved there."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadMaxRows

from penstock.client import Client, NewPosition, PositionReset
from penstock.spark.columns import source_schema, wanted_columns
from penstock.spark.mirror import LOOK_S
from penstock.spark.options import parse_options
from penstock.spark.stream import FeedStreamReader
from tests.exhaustive import exhaustive
from tests.spark.conftest import Query

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


def test_a_stream_is_seen_with_its_gap(query: Query, client: Client, group: str, publish: Publish) -> None:
    publish(range(10))
    query.run()

    assert [each.kind for each in client.consumer_groups() if each.name == group] == ["spark"]
    assert positions(client, group) == [(0, 5, 0), (1, 5, 0)]
    publish(range(10, 14))
    assert positions(client, group) == [(0, 5, 2), (1, 5, 2)]
    query.run(maxEventsPerTrigger="2")
    assert positions(client, group) == [(0, 7, 0), (1, 7, 0)]


@pytest.mark.exhaustive
def test_a_stream_that_has_caught_up_is_seen_where_it_is(
    query: Query, client: Client, group: str, publish: Publish
) -> None:
    publish(range(10))
    running = query.start()
    try:
        running.processAllAvailable()
        publish(range(10, 20))
        running.processAllAvailable()
        wait_for(lambda: running.status["message"].startswith("Waiting"))
    finally:
        running.stop()

    assert positions(client, group) == [(0, 10, 0), (1, 10, 0)]


@pytest.mark.parametrize("replayed", [exhaustive(False), True], ids=["once", "replayed"])
def test_a_stream_that_was_reset_goes_on_there_once(
    query: Query, client: Client, group: str, publish: Publish, event_type: str, *, replayed: bool
) -> None:
    publish(range(10))
    query.run()
    client.reset_positions(group, [PositionReset(event_type, 1, to="begin")], reason="lost")
    publish(range(10, 12))

    query.run()
    again = [(0, 5), *[(1, offset) for offset in range(6)]]
    assert query.batches[-1] == (1, again)
    if replayed:
        publish(range(12, 14))
        query.forget_commit(1)
        query.run()
        assert query.batches[-2:] == [(1, again), (2, [(0, 6), (1, 6)])]
    query.run()
    assert len(query.batches) == (4 if replayed else 2)
    assert [gap for _, _, gap in positions(client, group)] == [0, 0]


def test_a_running_stream_is_moved_back_and_forward(
    query: Query, client: Client, group: str, publish: Publish, event_type: str
) -> None:
    publish(range(10))
    running = query.start(maxEventsPerTrigger="4")
    try:
        running.processAllAvailable()
        assert len(query.places) == 10
        client.reset_positions(group, to="begin", reason="again")
        wait_for(lambda: len(query.places) == 20)
        client.reset_positions(group, [PositionReset(event_type, 0, offset=2)], reason="some")
        wait_for(lambda: len(query.places) == 23)
    finally:
        running.stop()

    assert len(query.places) == 23
    assert [each.reason for each in client.group_history(group)] == ["some", "again", "again"]


@pytest.mark.parametrize("follows", [exhaustive(False), True])
def test_a_reset_to_the_end_is_no_loss_though_the_end_was_looked_up_before(
    client: Client, options: dict[str, str], group: str, publish: Publish, follows: bool
) -> None:
    publish(range(10))
    chosen = parse_options(options | {"consumerGroup": group})
    reader = FeedStreamReader(chosen, wanted_columns(source_schema(chosen), chosen), {})
    start = reader.initialOffset()
    if not follows:
        reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, ReadMaxRows(1000))
    publish(range(10, 16))
    client.reset_positions(group, to="end", reason="over")
    time.sleep(LOOK_S)

    end = reader.latestOffset(end, ReadMaxRows(1000))

    place = end[options["eventType"]]
    assert (place["0"], place["1"]) == (8, 8)
    assert reader.partitions(end, end) == []


def test_a_new_query_under_an_old_name_heeds_no_reset_of_before(
    query: Query, client: Client, group: str, publish: Publish, tmp_path: Any
) -> None:
    publish(range(10))
    query.run()
    client.reset_positions(group, to="begin", reason="for the other one")

    other = Query(query.spark, query.options, tmp_path / "other")
    other.run(startingOffsets="latest")
    assert other.places == []


@pytest.mark.exhaustive
def test_a_reset_is_heeded_by_a_query_that_was_without_its_group_for_a_while(
    query: Query, client: Client, group: str, publish: Publish
) -> None:
    publish(range(10))
    query.run()
    del query.options["consumerGroup"]
    publish(range(10, 12))
    query.run()
    client.reset_positions(group, to="begin", reason="again")

    query.options["consumerGroup"] = group
    query.run()

    assert len(query.places) == 12 + 12


def test_a_name_that_another_kind_of_consumer_has_is_refused(
    query: Query, client: Client, group: str, publish: Publish, event_type: str
) -> None:
    publish(range(2))
    client.commit_positions(group, [NewPosition(event_type, 0, 1)], kind="processor")

    with pytest.raises(StreamingQueryException, match=group):
        query.run()


def wait_for(told: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not told():
        assert time.monotonic() < deadline, "it has not happened within 30 s"
        time.sleep(0.05)
