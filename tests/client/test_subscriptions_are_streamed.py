"""Batches of a subscription come from iterating over it, in both clients, and are committed by batch or together."""

import asyncio
from typing import Any

import pytest

from penstock.client import Client, RetryPolicy
from penstock.errors import CommitRefused, StreamNotFound, SubscriptionBusy, SubscriptionNotFound
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
    return opened(client.subscription(*given, **{"batch_limit": 10, **options}))


async def take(stream: Any, count: int) -> list[Any]:
    return [await first(stream) for _ in range(count)]


def numbers(*batches: Any) -> list[int]:
    return [event.data["n"] for batch in batches for event in batch.events]


async def test_committed_batches_come_in_order_and_do_not_come_again(client: Client, consuming: Any) -> None:
    wanted = definition(create_filled(client))
    seen = Seen()
    async with opened(consuming):
        for most in (EVENTS // 2, EVENTS):
            async with stream_of(consuming, wanted) as stream:
                while len(seen.numbers) < most:
                    batches = await take(stream, 2)
                    for batch in batches:
                        seen(batch)
                    await result(stream.commit(batches))

    assert sorted(seen.numbers) == list(range(EVENTS))
    assert seen.is_in_order
    assert unconsumed(client, stream.id) == 0
    assert len(client.subscriptions.all(event_types=wanted["event_types"])) == 1


async def test_uncommitted_batch_comes_again_as_soon_as_its_stream_is_left(client: Client, consuming: Any) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=10))
    async with opened(consuming):
        async with stream_of(consuming, wanted) as stream:
            batch = await first(stream)
        assert [each.state for each in client.subscriptions.stats(wanted)] == ["unassigned"]
        async with stream_of(consuming, wanted) as stream:
            assert (await first(stream)).raw == batch.raw
            with pytest.raises(StreamNotFound):
                await result(batch.commit())


async def test_next_stream_begins_when_one_ends_with_a_reason_unless_it_is_the_only_one(
    client: Client, consuming: Any
) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=30))
    async with opened(consuming):
        async with stream_of(consuming, wanted, stream_limit=10) as stream:
            batches = []
            for _ in range(2):
                batches.append(await first(stream))
                await result(batches[-1].commit())
        async with stream_of(consuming, wanted, stream_limit=10, reconnect=False) as only:
            batches.append(await first(only))
            await result(batches[-1].commit())
            with pytest.raises((StopIteration, StopAsyncIteration, RuntimeError)):
                await first(only)

    assert numbers(*batches) == list(range(30))
    assert len({batch.stream_id for batch in batches}) == 3
    assert stream.reason == only.reason == "Stream limit in events reached: 10"


async def test_stream_continues_where_the_subscription_is_reset_to(client: Client, consuming: Any) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=10))
    async with opened(consuming), stream_of(consuming, wanted) as stream:
        await result((await first(stream)).commit())
        await result(consuming.subscriptions.reset(wanted, to="begin"))

        assert numbers(await first(stream)) == list(range(10))
        assert stream.reason == "Resetting subscription cursors"


async def test_stream_without_a_free_slot_waits_until_attempts_are_spent(client: Client, consuming: Any) -> None:
    name = create_filled(client, partitions=1, events=10)
    wanted = subscribe(client, name)
    async with opened(consuming), stream_of(consuming, wanted) as one:
        await result((await first(one)).commit())
        with pytest.raises(SubscriptionBusy, check=has_code("no-free-slots")):
            async with stream_of(consuming, wanted, retry=RetryPolicy(max_attempts=2)) as refused:
                await first(refused)
        put(client, name, range(10, 20))
        await close(one)
        async with stream_of(consuming, wanted) as other:
            assert numbers(await first(other)) == list(range(10, 20))


async def test_extended_lease_allows_a_commit_after_the_commit_timeout(client: Client, consuming: Any) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=1))
    async with opened(consuming), stream_of(consuming, wanted, commit_timeout=2) as stream:
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


async def test_unknown_subscription_is_not_waited_for(consuming: Any) -> None:
    async with opened(consuming), stream_of(consuming, "0f6b7a2c-7f0e-4c1e-9a37-0b1c2d3e4f50") as stream:
        with pytest.raises(SubscriptionNotFound):
            await first(stream)


async def test_loop_over_a_stream_takes_the_batches_of_its_partitions(
    client: Client, consuming: Any, kind: Kind
) -> None:
    name = create_filled(client, partitions=4)
    batches: list[Any] = []
    async with opened(consuming), stream_of(consuming, definition(name), partitions=[(name, 2)]) as stream:
        if kind is ASYNC:
            async for batch in stream:
                batches.append(batch)
                if len(batches) == 3:
                    break
        else:
            for batch in stream:
                batches.append(batch)
                if len(batches) == 3:
                    break

    assert {(batch.event_type, batch.partition, batch.stream_id) for batch in batches} == {(name, 2, stream.stream_id)}
    assert numbers(*batches) == sorted(numbers(*batches))
