"""A subscription's batches come to whoever iterates over them, and are committed by batch or together."""

import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.client import AsyncClient, Client, RetryPolicy
from penstock.errors import BadParameter, CommitRefused, EventUnfit, NoFreeSlots, StreamNotFound, SubscriptionNotFound
from penstock.testing.live_hub import LiveHub
from tests.client.consuming import EVENTS, Seen, definition, filled, put, subscribe, unconsumed


def all_is_done(client: Client, id: str | None, seen: Seen) -> None:
    """Each event was seen once and in its order, and all of them are committed."""
    assert sorted(seen.numbers) == list(range(EVENTS))
    assert seen.is_in_order
    assert id is not None
    assert unconsumed(client, id) == 0


def test_batches_come_in_order_and_what_is_committed_does_not_come_again(client: Client) -> None:
    wanted = definition(filled(client))
    seen = Seen()
    for most in (EVENTS // 2, EVENTS):
        with client.subscription(wanted, batch_limit=10) as stream:
            for batch in stream:
                seen(batch)
                batch.commit()
                if len(seen.numbers) >= most:
                    break

    all_is_done(client, stream.id, seen)
    assert len(client.subscriptions.all(event_types=wanted["event_types"])) == 1


def test_a_batch_says_where_it_is_from(client: Client) -> None:
    name = filled(client, partitions=1, events=3)
    with client.subscription(subscribe(client, name), batch_limit=3) as stream:
        batch = next(stream)

    assert (batch.event_type, batch.partition, len(batch)) == (name, 0, 3)
    assert batch.offset.endswith("-000000000000000002")
    assert (batch.debug, batch.is_parked, batch.stream_id) == ("Stream started", False, stream.stream_id)
    assert [event.data["n"] for event in batch.events] == [0, 1, 2]
    assert batch.raw[0] == b'{"key":"key-0","n":0}'
    assert batch.events is batch.events


def test_several_batches_are_committed_with_one_request(client: Client) -> None:
    wanted = subscribe(client, filled(client, partitions=2, events=40))
    with client.subscription(wanted, batch_limit=10) as stream:
        batches = [next(stream) for _ in range(4)]
        stream.commit(batches)

        assert unconsumed(client, wanted) == 0


def test_what_is_not_committed_comes_again_as_soon_as_it_is_left(client: Client) -> None:
    wanted = subscribe(client, filled(client, partitions=1, events=10))
    with client.subscription(wanted, batch_limit=10) as stream:
        first = next(stream)
    began = time.monotonic()
    with client.subscription(wanted, batch_limit=10) as stream:
        assert next(stream).raw == first.raw
        assert time.monotonic() - began < 50, "not only when the time to commit was over"
        with pytest.raises(StreamNotFound):
            first.commit()


def test_a_stream_says_why_it_has_ended_and_the_next_one_begins(client: Client) -> None:
    name = filled(client, partitions=1, events=30)
    with client.subscription(subscribe(client, name), batch_limit=10, stream_limit=10) as stream:
        streams, numbers = set(), []
        for batch in stream:
            numbers += [event.data["n"] for event in batch.events]
            streams.add(batch.stream_id)
            batch.commit()
            if len(numbers) == 30:
                break

        assert numbers == list(range(30))
        assert len(streams) == 3
        assert stream.reason == "Stream limit in events reached: 10"


def test_without_reconnecting_the_iteration_ends_with_its_stream(client: Client) -> None:
    wanted = subscribe(client, filled(client, partitions=1, events=30))
    with client.subscription(wanted, batch_limit=10, stream_limit=20, reconnect=False) as stream:
        for batch in stream:
            batch.commit()

        assert stream.reason == "Stream limit in events reached: 20"
    assert unconsumed(client, wanted) == 10


def test_it_goes_on_where_it_was_reset_to(client: Client) -> None:
    name = filled(client, partitions=1, events=10)
    wanted = subscribe(client, name)
    with client.subscription(wanted, batch_limit=10) as stream:
        next(stream).commit()
        client.subscriptions.reset(wanted, to="begin")

        assert [event.data["n"] for event in next(stream).events] == list(range(10))
        assert stream.reason == "Resetting subscription cursors"


def test_one_that_finds_no_room_waits_for_it(client: Client) -> None:
    name = filled(client, partitions=1, events=10)
    wanted = subscribe(client, name)
    with client.subscription(wanted, batch_limit=10) as first, client.subscription(wanted, batch_limit=10) as second:
        next(first).commit()
        with pytest.raises(NoFreeSlots), client.subscription(wanted, retry=RetryPolicy(max_attempts=2)) as third:
            next(third)
        leaving = threading.Timer(0.3, first.close)
        leaving.start()
        put(client, name, range(10, 20))

        found = [event.data["n"] for event in next(second).events]
        leaving.join()

    assert found == list(range(10, 20))


def test_a_partition_is_asked_for_by_its_number(client: Client) -> None:
    name = filled(client, partitions=4)
    with client.subscription(definition(name), batch_limit=10, partitions=[(name, 2)]) as stream:
        assert {next(stream).partition for _ in range(3)} == {2}


def test_a_lease_can_be_extended_by_hand(client: Client) -> None:
    wanted = subscribe(client, filled(client, partitions=1, events=1))
    with client.subscription(wanted, batch_limit=1, commit_timeout=1) as stream:
        batch = next(stream)
        for _ in range(8):
            time.sleep(0.25)  # It is about what happens in so long a time.
            stream.extend_lease()
        batch.commit()

    assert unconsumed(client, wanted) == 0


def test_what_another_stream_has_by_now_cannot_be_committed(client: Client) -> None:
    wanted = subscribe(client, filled(client, partitions=2, events=40))
    with client.subscription(wanted, batch_limit=100, commit_timeout=1) as stream:
        old = [next(stream), next(stream)]
        again = [next(stream), next(stream)]

        assert stream.reason == "Commit timeout reached"
        assert [each.raw for each in sorted(again, key=lambda each: each.partition)] == [
            each.raw for each in sorted(old, key=lambda each: each.partition)
        ]
        with pytest.raises((StreamNotFound, CommitRefused)):
            old[0].commit()


@dataclass
class Order:
    key: str
    n: int


@dataclass
class Other:
    colour: str


def test_events_come_as_what_is_asked_for(client: Client) -> None:
    wanted = subscribe(client, filled(client, partitions=1, events=1))
    with client.subscription(wanted, type=Order) as stream:
        assert next(stream).events[0].data == Order("key-0", 0)
    with client.subscription(wanted, type=Other) as stream:
        [event] = next(stream).events
        with pytest.raises(EventUnfit, match="colour"):
            event.data  # noqa: B018


def test_a_subscription_that_is_not_there_is_not_waited_for(client: Client) -> None:
    with client.subscription("0f6b7a2c-7f0e-4c1e-9a37-0b1c2d3e4f50") as stream, pytest.raises(SubscriptionNotFound):
        next(stream)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"batch_limits": 3}, TypeError, "did you mean 'batch_limit'"),
        ({"batch_limit": 0}, BadParameter, "batch_limit"),
        ({"commit_timeout": 0.5}, BadParameter, "commit_timeout"),
    ],
    ids=["a stranger", "nothing", "half a second"],
)
def test_options_that_make_no_sense_are_refused_at_once(
    client: Client, options: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        client.subscription("x", **options)


@pytest.mark.anyio
async def test_async_batches_come_and_are_committed(client: Client, hub: LiveHub) -> None:
    wanted = definition(filled(client))
    seen = Seen()
    async with AsyncClient(hub.url) as async_client:
        for most in (EVENTS // 2, EVENTS):
            async with async_client.subscription(wanted, batch_limit=10) as stream:
                async for batch in stream:
                    seen(batch)
                    await batch.commit()
                    if len(seen.numbers) >= most:
                        break

    all_is_done(client, stream.id, seen)
