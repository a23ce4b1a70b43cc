import asyncio
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
import pytest

from penstock.client.async_feed import AsyncFeed
from penstock.core.cursor import LAST
from penstock.errors import ServerError
from tests.unit.client.handler import Handlers, json, lines

pytestmark = pytest.mark.anyio

DISCOVERY = json({"token": "t", "partitions": [{"id": "0"}, {"id": "1"}], "exactlyOnce": True})
EVENT = ('{"partition":0,"data":{"n":1}}', '{"partition":0,"cursor":"a"}')


class Waiting:
    """A server that answers the first request and lets the next one wait until it is let go."""

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.requests = 0

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests += 1
        if self.requests == 2:
            self.asked.set()
            await anyio.sleep_forever()
        return lines(*EVENT)(request)

    def feed(self) -> AsyncFeed:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self))
        return AsyncFeed("http://s/feed", http=http, version=1, partition_count=1)


@dataclass
class Numbered:
    n: int


def feed(handlers: Handlers, **options: Any) -> AsyncFeed:
    return AsyncFeed("http://s/feed", http=handlers.async_client(), patience=0, **options)


async def test_a_feed_with_a_type_gives_its_instances_however_it_is_read() -> None:
    typed = feed(Handlers(lines(*EVENT)), version=1, partition_count=1, type=Numbered)

    pages = [await typed.read({0: "_first"}), await typed.resume("me"), await anext(typed.follow())]

    assert [event.data for page in pages for event in page.events] == [Numbered(1)] * 3


async def test_a_feed_tells_what_it_speaks_and_where_to_begin() -> None:
    known = feed(Handlers(DISCOVERY))

    assert (await known.discover()).exactly_once
    assert await known.cursors(LAST) == {0: "_last", 1: "_last"}
    assert known.url == "http://s/feed"


async def test_pages_are_read_resumed_and_stored() -> None:
    handlers = Handlers(lines(*EVENT))
    known = feed(handlers, version=1, partition_count=1)

    assert (await known.read({0: "_first"}, page_size_hint=5)).events[0].data == {"n": 1}
    assert (await known.resume("me")).cursors == {0: "a"}
    await known.store("me", {0: "a"})

    assert handlers.urls == [
        "http://s/feed?n=1&cursor0=_first&pagesizehint=5",
        "http://s/feed?n=1&cursorset=me&resume=0",
        "http://s/feed?n=1&cursor0=a&cursorset=me&pagesizehint=0&store_cursor=1",
    ]


async def test_following_waits_ten_seconds_a_request() -> None:
    handlers = Handlers(lines(*EVENT))

    async with feed(handlers, version=1, partition_count=1) as known, known.follow() as pages:
        async for page in pages:
            assert page.cursors == {0: "a"}
            break

    assert handlers.urls == ["http://s/feed?n=1&cursor0=_first&wait=10"]


async def test_closing_ends_a_wait_at_once() -> None:
    server = Waiting()
    pages = server.feed().follow()
    got = []

    async def read() -> None:
        async for page in pages:
            got.append(page)  # noqa: PERF401 - a comprehension would lose what came before the end

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await server.asked.wait()
        await pages.aclose()

    assert len(got) == 1
    assert [page async for page in pages] == []


async def test_a_cancellation_loses_nothing() -> None:
    server = Waiting()
    pages = server.feed().follow()
    await anext(pages)

    waiting = asyncio.ensure_future(anext(pages))
    await server.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    page = await anext(pages)

    assert page.events[0].data == {"n": 1}
    assert server.requests == 3
    await pages.aclose()


async def test_an_error_ends_the_pages() -> None:
    pages = feed(Handlers(json({}, status=401)), version=1, partition_count=1).follow()

    with pytest.raises(ServerError):
        await anext(pages)
    assert [page async for page in pages] == []
