"""Batches of a subscription come from iterating over it, in both clients, and are committed by batch or together."""

import json
from typing import Any

import httpx2
import pytest

from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.errors import StreamNotFound
from penstock.testing.live_hub import LiveHub
from tests.client.consuming import EVENTS, Seen, create_filled, definition, subscribe, unconsumed
from tests.unit.client.kinds import ASYNC, Kind, first, opened, result

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
                        for event in batch.events:
                            seen(event)
                    await result(stream.commit(batches))

    assert sorted(seen.numbers) == list(range(EVENTS))
    assert seen.is_in_order
    assert unconsumed(client, stream.id) == 0
    assert len(client.subscriptions(event_types=wanted["event_types"])) == 1


@pytest.mark.parametrize("size", [7, 1_000])
async def test_events_of_a_batch_tell_what_those_of_the_feed_tell(client: Client, consuming: Any, size: int) -> None:
    name = create_filled(client, partitions=1, events=50)
    client.publish(name, NewEvent.of(b'{"key":"x","n":50}', headers={"ce_type": "other"}))
    wanted = subscribe(client, name)

    def told(events: Any) -> list[tuple[Any, ...]]:
        return [(each.partition, each.offset, each.key, each.kind, each.received_at) for each in events]

    async with opened(consuming), stream_of(consuming, wanted, batch_limit=size, type=dict[str, Any]) as stream:
        found: list[tuple[Any, ...]] = []
        while len(found) < 51:
            batch = await first(stream)
            found += told(batch.events)
            await result(batch.commit())

    with client.feed(name) as feed:
        assert found == told(feed.read({0: "_first"}).events)
    assert [each[1] for each in found] == list(range(51))
    assert found[49][2:4] == ("key-9", name)
    assert found[50][2:4] == ("x", "other")


def test_stream_of_another_client_has_no_details(client: Client, hub: LiveHub) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=10))
    url = f"{hub.url}/subscriptions/{wanted}/events"
    limits = {"stream_limit": 10, "batch_limit": 4, "batch_flush_timeout": 1, "stream_timeout": 3}

    lines = httpx2.get(url, params=limits, timeout=300).text.splitlines()

    batches = [json.loads(line) for line in lines if '"events":' in line]
    assert sum(len(each["events"]) for each in batches) == 10
    assert all(each.get("info", {}).keys() <= {"debug"} for each in batches)


async def test_uncommitted_batch_comes_again_as_soon_as_its_stream_is_left(client: Client, consuming: Any) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1, events=10))
    async with opened(consuming):
        async with stream_of(consuming, wanted) as stream:
            batch = await first(stream)
        assert [each.state for each in client.subscription(wanted).stats()] == ["unassigned"]
        async with stream_of(consuming, wanted) as stream:
            assert (await first(stream)).raw == batch.raw
            with pytest.raises(StreamNotFound):
                await result(batch.commit())


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
