from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.client.async_client import AsyncClient
from penstock.client.event_types import PartitionOffsets
from penstock.client.publishing import Published
from penstock.wire.groups import ConsumerGroup, NewPosition
from tests.unit.client.handler import Handlers, json, lines
from tests.unit.client.test_client import COMPATIBILITY, GROUP, OFFSETS, PAGE, Struct

pytestmark = pytest.mark.anyio


async def test_event_types_are_created_shown_and_deleted() -> None:
    handlers = Handlers(json({}, 201), json([{"name": "a"}]), json({"name": "a"}), json(OFFSETS), json({}))

    async with AsyncClient("http://s", http=handlers.async_client()) as hub:
        await hub.create_event_type("a", category="data")
        assert await hub.event_types() == [{"name": "a"}]
        assert await hub.event_type("a") == {"name": "a"}
        assert await hub.partitions("a") == [PartitionOffsets(0, 1, 0, 41)]
        await hub.delete_event_type("a")

    assert [request.method for request in handlers.requests] == ["POST", "GET", "GET", "GET", "DELETE"]


async def test_event_types_are_changed() -> None:
    handlers = Handlers(json({}, 204), json({}), json({}, 204), json(COMPATIBILITY))
    hub = AsyncClient("http://s", http=handlers.async_client())

    await hub.check_definition({"name": "a"})
    await hub.replace_event_type({"name": "a"})
    await hub.grow_partitions("a", 8)
    assert (await hub.check_compatibility("a", "{}", version="1.0.0")).compatible

    assert handlers.urls[0] == "http://s/event-types/a/definition-check"
    assert handlers.urls[3:] == [
        "http://s/event-types/a/schemas/1.0.0/compatibility-check",
    ]


async def test_consumer_groups_are_listed_shown_committed_reset_and_forgotten() -> None:
    answers = [PAGE | {"items": [GROUP]}, GROUP | {"positions": []}, PAGE, PAGE | {"dry_run": True}, PAGE]
    handlers = Handlers(*map(json, answers), json({}, 204))
    hub = AsyncClient("http://s", http=handlers.async_client())

    assert await hub.consumer_groups("a") == [ConsumerGroup(**GROUP)]
    assert (await hub.consumer_group("g")).positions == []
    assert await hub.commit_positions("g", [NewPosition("a", 0, 7)]) == []
    assert await hub.reset_positions("g", to="begin") == []
    assert await hub.group_history("g") == []
    await hub.forget_group("g")

    assert [request.method for request in handlers.requests] == ["GET", "GET", "POST", "PATCH", "GET", "DELETE"]


async def test_publishing_takes_one_event_many_or_an_async_iterable() -> None:
    async def events() -> AsyncIterator[Any]:
        yield {"a": 1}

    handlers = Handlers(json({"category": "undefined"}), json({"count": 1, "cursors": {"0": "c"}}))
    hub = AsyncClient("http://s", http=handlers.async_client())

    for given in ({"a": 1}, [{"a": 1}], events()):
        assert await hub.publish("a", given) == Published(1, 17, {0: "c"})


async def test_a_feed_can_have_a_type() -> None:
    event = ('{"partition":0,"data":{"a":1}}', '{"partition":0,"cursor":"c"}')
    hub = AsyncClient("http://s", http=Handlers(lines(*event)).async_client())

    [read] = (await hub.feed("a", partition_count=1, type=Struct).read({0: "_first"})).events

    assert read.data == Struct(1)


async def test_a_feed_is_seen_as_it_is_or_with_a_count_of_the_readers_own() -> None:
    handlers = Handlers(json({"token": "1-1", "partitions": [{"id": "0"}]}), lines(), lines())
    hub = AsyncClient("http://s", http=handlers.async_client())

    await hub.feed("a").read({0: "x"})
    await hub.feed("a", partition_count=2).read({1: "z"})

    assert handlers.urls == [
        "http://s/feeds/a",
        "http://s/feeds/a/events?token=1-1&partition=0&cursor=x",
        "http://s/feeds/a?n=2&cursor1=z",
    ]
