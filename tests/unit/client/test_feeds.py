"""The sync and the async feed: discovery, pages, cursor sets, and following."""

import asyncio
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import httpx2
import pytest

from penstock.client import AsyncFeed, Feed
from penstock.core.log.cursor import feed_mark
from penstock.errors import BadParameter, ServerError
from penstock.wire.log.nakadi import offset_text
from tests.unit.client.handler import Body, Handlers, json, lines, streamed
from tests.unit.client.kinds import Kind, close, first, opened, rest, result

pytestmark = pytest.mark.anyio

DISCOVERY = json({"token": "t", "partitions": [{"id": "0"}, {"id": "1"}], "exactlyOnce": True})
EVENT = ('{"partition":0,"data":{"n":1}}', '{"partition":0,"cursor":"a"}')
V1: dict[str, Any] = {"version": 1, "partition_count": 1}


@dataclass
class Numbered:
    n: int


def feed(kind: Kind, handlers: Handlers, **options: Any) -> Any:
    return kind.feed("http://s/feed", http=kind.http(handlers), retry_timeout=0, **options)


async def test_discovery_and_cursors_are_of_all_or_chosen_partitions(kind: Kind) -> None:
    handlers = Handlers(DISCOVERY, json({"token": "t2", "partitions": [{"id": "7"}]}))
    known = feed(kind, handlers)

    assert (await result(known.discover())).exactly_once
    assert await result(known.cursors()) == {0: "_first", 1: "_first"}
    assert await result(known.cursors("latest")) == {0: "_last", 1: "_last"}
    assert await result(known.cursors(partitions=range(1, 2))) == {1: "_first"}
    assert known.url == "http://s/feed"
    assert len(handlers.requests) == 1
    assert (await result(known.discover())).ids == [7], "asked again"
    await close(known)


async def test_cursors_at_a_time_are_found_by_the_hub_for_each_partition_of_the_view(kind: Kind) -> None:
    found = json([{"partition": "1", "offset": offset_text(3, 8)}, {"partition": "0", "offset": offset_text(3, -1)}])
    time = datetime(2026, 11, 20, 10, tzinfo=UTC)
    for count, cursors in ((1, {0: "0_9"}), (2, {0: "0", 1: "9"}), (4, {0: "0", 1: "9", 2: "0", 3: "9"})):
        handlers = Handlers(found)
        known = kind.feed("http://s/hub/feeds/a.b", http=kind.http(handlers), version=1, partition_count=count)

        begins = await result(known.cursors(time))

        assert begins == {n: f"1-{feed_mark('a.b')}-3-2-{count}-{n}-{offsets}" for n, offsets in cursors.items()}
        assert handlers.urls == ["http://s/hub/event-types/a.b/cursors?at=2026-11-20T10%3A00%3A00%2B00%3A00"]
        with pytest.raises(BadParameter, match=r"parameter partitions is \[7\]; allowed: those of the feed"):
            await result(known.cursors(timedelta(hours=1), partitions=[0, 7]))
        await close(known)


@pytest.mark.parametrize("url", ["http://s/feed", "http://s/feeds/a.b"], ids=["another path", "the path of a hub"])
async def test_foreign_feed_cannot_start_at_a_time(kind: Kind, url: str) -> None:
    refusing = Handlers(lambda _: httpx2.Response(404, text="not here"))
    known = kind.feed(url, http=kind.http(refusing), retry_timeout=0, **V1)

    with pytest.raises(BadParameter, match="earliest or latest: only a Penstock hub finds events by time"):
        await result(known.cursors(timedelta(hours=1)))
    with pytest.raises(BadParameter, match="earliest or latest: only a Penstock hub finds events by time"):
        await first(known.follow(start=datetime(2026, 11, 20, 10, tzinfo=UTC)))


@pytest.mark.parametrize("start", ["_first", "begin", "1h", datetime(2026, 11, 20), None], ids=str)  # noqa: DTZ001
async def test_start_that_is_none_is_refused_before_any_request(kind: Kind, start: Any) -> None:
    known = feed(kind, Handlers())

    for begin in (lambda: result(known.cursors(start)), lambda: first(known.follow(start=start))):
        with pytest.raises(BadParameter, match="allowed: 'earliest', 'latest', a datetime with a time zone"):
            await begin()


async def test_options_of_read_resume_and_store_are_sent(kind: Kind) -> None:
    handlers = Handlers(lines(*EVENT))
    known = feed(kind, handlers, **V1)

    page = await result(known.read({0: "_first"}, page_size_hint=5, headers="_all"))
    assert page.events[0].data == {"n": 1}
    assert (await result(known.resume("me", page_size_hint=3))).cursors == {0: "a"}
    await result(known.store("me", {0: "a"}))

    assert handlers.urls == [
        "http://s/feed?n=1&cursor0=_first&pagesizehint=5&headers=_all",
        "http://s/feed?n=1&cursorset=me&resume=0&pagesizehint=3",
        "http://s/feed?n=1&cursor0=a&cursorset=me&pagesizehint=0&store_cursor=1",
    ]


async def test_feed_with_a_type_decodes_events_in_every_way_to_read(kind: Kind) -> None:
    typed = feed(kind, Handlers(lines(*EVENT)), type=Numbered, **V1)

    pages = [await result(typed.read({0: "_first"})), await result(typed.resume("me")), await first(typed.follow())]
    pages.append(await result(feed(kind, Handlers(DISCOVERY, lines(*EVENT)), type=Numbered).read({0: "_first"})))

    assert [event.data for page in pages for event in page.events] == [Numbered(1)] * 4


async def test_following_waits_ten_seconds_a_request_by_default(kind: Kind) -> None:
    handlers = Handlers(lines(*EVENT))
    known = feed(kind, handlers, **V1)

    for following in (known.follow(), known.follow({0: "x"}, wait_seconds=0)):
        await first(following)

    assert handlers.urls == ["http://s/feed?n=1&cursor0=_first&wait=10", "http://s/feed?n=1&cursor0=x"]


async def test_pages_end_when_they_are_closed_or_have_failed(kind: Kind) -> None:
    async with opened(feed(kind, Handlers(lines(*EVENT)), **V1).follow()) as closed:
        await first(closed)
    failed = feed(kind, Handlers(json({}, status=401)), **V1).follow()
    with pytest.raises(ServerError):
        await first(failed)

    assert [await rest(pages) for pages in (closed, failed)] == [[], []]


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (lambda kind, handlers: feed(kind, handlers, type=Handlers), TypeError),
        (lambda kind, handlers: feed(kind, handlers).follow(wait_seconds=-1), BadParameter),
        (lambda kind, handlers: feed(kind, handlers).read({0: "x"}, pagesize=3), TypeError),
    ],
    ids=["a type without JSON", "a negative wait", "an unknown option"],
)
async def test_bad_option_is_refused_before_any_request(kind: Kind, refused: Any, error: type[Exception]) -> None:
    handlers = Handlers()

    with pytest.raises(error):
        await result(refused(kind, handlers))
    assert handlers.requests == []


def test_pages_closed_by_another_thread_end_while_they_pause() -> None:
    asked = threading.Event()

    def empty(_: httpx2.Request) -> httpx2.Response:
        asked.set()
        return httpx2.Response(200)

    pages = Feed("http://s/feed", http=Handlers(empty).client(), retry_timeout=0, **V1).follow(poll_interval=3600)
    got: list[object] = []
    reader = threading.Thread(target=lambda: got.extend(pages))
    reader.start()
    assert asked.wait(300)

    pages.close()

    reader.join(300)
    assert not reader.is_alive()
    assert got == []


def test_pages_continue_after_an_interruption_without_loss() -> None:
    body = Body(b'{"part', KeyboardInterrupt())
    handlers = Handlers(streamed(body), lines(*EVENT))
    pages = Feed("http://s/feed", http=handlers.client(), retry_timeout=0, **V1).follow()

    with pytest.raises(KeyboardInterrupt):
        next(pages)

    assert body.closed
    assert next(pages).cursors == {0: "a"}


class Waiting:
    """A server that answers the first request and lets the second one wait until it is cancelled."""

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
        return AsyncFeed("http://s/feed", http=httpx2.AsyncClient(transport=httpx2.MockTransport(self)), **V1)


async def test_closing_async_pages_ends_a_wait_at_once() -> None:
    server = Waiting()
    pages = server.feed().follow()
    got: list[Any] = []

    async def read() -> None:
        async for page in pages:
            got.append(page)  # noqa: PERF401 - a comprehension would lose what came before the end

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await server.asked.wait()
        await pages.aclose()

    assert len(got) == 1
    assert await rest(pages) == []


async def test_async_pages_continue_after_a_cancellation_without_loss() -> None:
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
