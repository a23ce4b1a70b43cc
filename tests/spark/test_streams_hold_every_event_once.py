import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client import Client
from tests.exhaustive import exhaustive
from tests.spark.conftest import Query

Publish = Callable[[range], None]


def ends(progress: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Where a micro-batch ended, by event type."""
    given = progress["sources"][0]["endOffset"]
    parsed: dict[str, dict[str, Any]] = json.loads(given) if isinstance(given, str) else given
    return parsed


def all_places(client: Client, event_type: str) -> list[tuple[int, int]]:
    return [(held.partition, offset) for held in client.partitions(event_type) for offset in range(held.head)]


def test_what_is_available_is_read_in_batches_no_larger_than_asked_for(
    query: Query, client: Client, event_type: str, publish: Publish
) -> None:
    publish(range(250))

    progress = query.run(maxEventsPerTrigger="100")

    assert query.places == all_places(client, event_type)
    assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [100, 100, 50]


def test_a_query_that_is_started_again_goes_on_where_it_was(
    query: Query, client: Client, event_type: str, publish: Publish
) -> None:
    publish(range(100))
    query.run()
    publish(range(100, 130))

    query.run()
    query.run()

    assert [len(places) for _, places in query.batches] == [100, 30]
    assert query.places == all_places(client, event_type)


@pytest.mark.exhaustive
def test_what_is_published_while_available_events_are_read_is_left_for_the_next_run(
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


@pytest.mark.parametrize("where", [exhaustive("earliest"), "latest"])
@pytest.mark.parametrize("number", [exhaustive(0), 1])
def test_a_micro_batch_that_is_run_again_holds_the_same_rows(
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


@pytest.mark.exhaustive
def test_a_new_query_from_the_latest_offset_reads_only_what_comes(query: Query, publish: Publish) -> None:
    publish(range(50))
    query.run(startingOffsets="latest")
    publish(range(50, 57))

    query.run(startingOffsets="latest")

    assert len(query.places) == 7


@pytest.mark.exhaustive
def test_a_new_query_begins_at_the_offsets_it_is_given(query: Query, event_type: str, publish: Publish) -> None:
    publish(range(50))

    query.run(startingOffsets=json.dumps({event_type: {"0": 20, "1": -1}}))

    assert query.places == [(0, offset) for offset in range(20, 25)]


@pytest.mark.exhaustive
def test_a_small_event_type_is_not_kept_waiting_by_a_large_one(
    query: Query, client: Client, event_type: str, publish: Publish
) -> None:
    other = f"{event_type}.other"
    client.create_event_type(other, partition_count=1)
    client.publish(other, ({"n": number} for number in range(40)))
    publish(range(500))

    progress = query.run(eventType=f"{event_type},{other}", maxEventsPerTrigger="100")

    assert ends(progress[0])[other] | {"from": None} == {"epoch": 1, "0": 40, "from": None}
    assert sum(each["numInputRows"] for each in progress) == 540


@pytest.mark.exhaustive
def test_an_event_type_that_is_added_is_read_from_its_beginning(
    query: Query, client: Client, event_type: str, publish: Publish
) -> None:
    other = f"{event_type}.other"
    client.create_event_type(other, partition_count=1)
    client.publish(other, ({"n": number} for number in range(40)))
    publish(range(10))
    query.run()

    query.run(eventType=f"{event_type},{other}")

    assert [len(places) for _, places in query.batches] == [10, 40]


@pytest.mark.exhaustive
def test_an_event_type_that_is_left_out_for_a_while_goes_on_where_it_was(
    query: Query, client: Client, event_type: str, publish: Publish
) -> None:
    other = f"{event_type}.other"
    client.create_event_type(other, partition_count=1)
    publish(range(10))
    client.publish(other, [{"n": 1}])
    query.run(eventType=f"{event_type},{other}")
    for number in (2, 3):
        client.publish(other, [{"n": number}])
        query.run(eventType=other)
    query.forget_commit(query.batches[-1][0])
    publish(range(10, 13))

    query.run(eventType=event_type)
    query.run(eventType=f"{event_type},{other}")

    assert [len(places) for _, places in query.batches] == [11, 1, 1, 1, 3], "one was run again"


def test_offsets_are_readable_and_the_progress_tells_where_the_feed_ends(
    query: Query, event_type: str, publish: Publish
) -> None:
    publish(range(10))
    [first, *_] = query.run(maxEventsPerTrigger="4")

    assert ends(first) == {event_type: {"epoch": 1, "0": 2, "1": 2, "from": {"epoch": 1, "0": 0, "1": 0}}}
    latest = first["sources"][0]["latestOffset"]
    assert (json.loads(latest) if isinstance(latest, str) else latest) == {event_type: {"epoch": 1, "0": 5, "1": 5}}


def test_a_stream_runs_on_and_reads_what_comes(query: Query, publish: Publish) -> None:
    running = query.start()
    try:
        for number in range(3):
            publish(range(number * 10, number * 10 + 10))
            running.processAllAvailable()
            assert len(query.places) == (number + 1) * 10
    finally:
        running.stop()
