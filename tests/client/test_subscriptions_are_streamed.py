"""Batches of a subscription come from iterating over it, in both clients, and are committed by batch or together."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.client import Client, RetryPolicy
from penstock.errors import (
    BadParameter,
    CommitRefused,
    EventUnusable,
    StreamNotFound,
    SubscriptionBusy,
    SubscriptionNotFound,
)
from penstock.testing.live_hub import LiveHub
from tests.client.consuming import EVENTS, Seen, create_filled, definition, put, subscribe, unconsumed
from tests.failing import has_code
from tests.unit.client.kinds import ASYNC, Kind, close, first, opened, result

pytestmark = pytest.mark.anyio


@pytest.fixture
def consuming(hub: LiveHub, kind: Kind) -> Any:
    """A client of each kind, which a test enters."""
    return kind.client(hub.url)


def stream_of(client: Any, *given: Any, **options: Any) -> Any:
    return opened(client.subscription(*given, **options))


async def take(stream: Any, count: int) -> list[Any]:
    return [await first(stream) for _ in range(count)]


def numbers(batch: Any) -> list[int]:
    return [event.data["n"] for event in batch.events]


async def test_committed_batches_come_in_order_and_do_not_come_again(client: Client, consuming: Any) -> None:
    wanted = definition(create_filled(client))
    seen = Seen()
    async with opened(consuming):
        for most in (EVENTS // 2, EVENTS):
            async with stream_of(consuming, wanted, batch_limit=10) as stream:
                while len(seen.numbers) < most:
                    batch = await first(stream)
                    seen(batch)
                    await result(batch.commit())

    assert sorted(seen.numbers) == list(range(EVENTS))
    assert seen.is_in_order
    assert unconsumed(client, stream.id) == 0
    assert len(client.subscriptions.all(event_types=wanted["event_types"])) == 1


async def test_batch_has_its_place_and_its_events(client: Client, consuming: Any) -> None:
    name = create_filled(client, partitions=1, events=3)
    async with opened(consuming), stream_of(consuming, subscribe(client, name), batch_limit=3) as stream:
        batch = await first(stream)

    assert (batch.event_type, batch.partition, len(batch)) == (name, 0, 3)
    assert batch.offset.endswith("-000000000000000002")
    assert (batch.debug, batch.is_parked, batch.stream_id) == ("Stream started", False, stream.stream_id)
    assert numbers(batch) == [0, 1, 2]
    assert batch.raw[0] == b'{"key":"key-0","n":0}'
    assert batch.events is batch.events


async def test_several_batches_are_committed_with_one_request(client: Client, consuming: Any) -> None:
    wanted = subscribe(client, create_filled(client, partitions=2, events=40))
    async with opened(consuming), stream_of(consuming, wanted, batch_limit=10) as stream:
        await result(stream.commit(await take(stream, 4)))

        assert unconsumed(client, wanted) == 0


async def test_uncommitted_batch_comes_again_as_soon_as_its_stream_is_left(client: Client, consuming: Any) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=10))
    async with opened(consuming):
        async with stream_of(consuming, wanted, batch_limit=10) as stream:
            batch = await first(stream)
        assert [each.state for each in client.subscriptions.stats(wanted)] == ["unassigned"]
        async with stream_of(consuming, wanted, batch_limit=10) as stream:
            assert (await first(stream)).raw == batch.raw
            with pytest.raises(StreamNotFound):
                await result(batch.commit())


async def test_next_stream_begins_when_one_ends_with_a_reason(client: Client, consuming: Any) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=30))
    async with opened(consuming), stream_of(consuming, wanted, batch_limit=10, stream_limit=10) as stream:
        batches = []
        for _ in range(3):
            batches.append(await first(stream))
            await result(batches[-1].commit())

        assert [number for batch in batches for number in numbers(batch)] == list(range(30))
        assert len({batch.stream_id for batch in batches}) == 3
        assert stream.reason == "Stream limit in events reached: 10"


async def test_iteration_without_reconnecting_ends_with_its_stream(client: Client, consuming: Any) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=30))
    options: Any = {"batch_limit": 10, "stream_limit": 20, "reconnect": False}
    async with opened(consuming), stream_of(consuming, wanted, **options) as stream:
        for batch in await take(stream, 2):
            await result(batch.commit())
        with pytest.raises((StopIteration, StopAsyncIteration, RuntimeError)):
            await first(stream)

        assert stream.reason == "Stream limit in events reached: 20"
    assert unconsumed(client, wanted) == 10


async def test_stream_continues_where_the_subscription_is_reset_to(client: Client, consuming: Any) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=10))
    async with opened(consuming), stream_of(consuming, wanted, batch_limit=10) as stream:
        await result((await first(stream)).commit())
        await result(consuming.subscriptions.reset(wanted, to="begin"))

        assert numbers(await first(stream)) == list(range(10))
        assert stream.reason == "Resetting subscription cursors"


async def test_stream_without_a_free_slot_waits_until_attempts_are_spent(client: Client, consuming: Any) -> None:
    name = create_filled(client, partitions=1, events=10)
    wanted = subscribe(client, name)
    async with opened(consuming), stream_of(consuming, wanted, batch_limit=10) as one:
        await result((await first(one)).commit())
        with pytest.raises(SubscriptionBusy, check=has_code("no-free-slots")):
            async with stream_of(consuming, wanted, retry=RetryPolicy(max_attempts=2)) as refused:
                await first(refused)
        put(client, name, range(10, 20))
        await close(one)
        async with stream_of(consuming, wanted, batch_limit=10) as other:
            assert numbers(await first(other)) == list(range(10, 20))


async def test_stream_of_chosen_partitions_has_no_others(client: Client, consuming: Any) -> None:
    name = create_filled(client, partitions=4)
    async with opened(consuming), stream_of(
        consuming, definition(name), batch_limit=10, partitions=[(name, 2)]
    ) as stream:  # fmt: skip
        assert {batch.partition for batch in await take(stream, 3)} == {2}


async def test_extended_lease_allows_a_commit_after_the_commit_timeout(client: Client, consuming: Any) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=1))
    async with opened(consuming), stream_of(consuming, wanted, batch_limit=1, commit_timeout=2) as stream:
        batch = await first(stream)
        for _ in range(3):
            await asyncio.sleep(0.8)  # It is about a time longer than the commit timeout.
            await result(stream.extend_lease())
        await result(batch.commit())

    assert unconsumed(client, wanted) == 0


async def test_uncommitted_batches_come_again_after_the_commit_timeout(client: Client, consuming: Any) -> None:
    wanted = subscribe(client, create_filled(client, partitions=2, events=40))
    async with opened(consuming), stream_of(consuming, wanted, batch_limit=100, commit_timeout=1) as stream:
        old = await take(stream, 2)
        again = await take(stream, 2)

        assert stream.reason == "Commit timeout reached"
        assert sorted(each.raw for each in again) == sorted(each.raw for each in old)
        with pytest.raises((StreamNotFound, CommitRefused)):
            await result(old[0].commit())


@dataclass
class Order:
    key: str
    n: int


@dataclass
class Other:
    colour: str


async def test_events_are_decoded_into_the_type_of_the_stream(client: Client, consuming: Any) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=1))
    async with opened(consuming):
        async with stream_of(consuming, wanted, type=Order) as stream:
            assert (await first(stream)).events[0].data == Order("key-0", 0)
        async with stream_of(consuming, wanted, type=Other) as stream:
            [event] = (await first(stream)).events
            with pytest.raises(EventUnusable, check=has_code("event-unfit"), match="colour"):
                event.data  # noqa: B018


async def test_unknown_subscription_is_not_waited_for(consuming: Any) -> None:
    async with opened(consuming), stream_of(consuming, "0f6b7a2c-7f0e-4c1e-9a37-0b1c2d3e4f50") as stream:
        with pytest.raises(SubscriptionNotFound):
            await first(stream)


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"batch_limits": 3}, TypeError, "did you mean 'batch_limit'"),
        ({"batch_limit": 0}, BadParameter, "batch_limit"),
        ({"commit_timeout": 0.5}, BadParameter, "commit_timeout"),
    ],
    ids=["unknown", "nothing", "half a second"],
)
async def test_wrong_option_of_a_stream_is_refused_at_once(
    consuming: Any, options: Any, error: type[Exception], reason: str
) -> None:
    async with opened(consuming):
        with pytest.raises(error, match=reason):
            consuming.subscription("x", **options)


async def test_loop_over_a_stream_takes_its_batches(client: Client, consuming: Any, kind: Kind) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=10))
    async with opened(consuming), stream_of(consuming, wanted, batch_limit=10) as stream:
        if kind is ASYNC:
            async for batch in stream:
                assert numbers(batch) == list(range(10))
                break
        else:
            for batch in stream:
                assert numbers(batch) == list(range(10))
                break
