"""The client reads a FeedAPI server with splitting partitions, changing tokens, and failures."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from penstock.client import AsyncFeed, Feed, Page
from tests.client.conftest import Splitting
from tests.client.loopback import served
from tests.client.splitting_server import splitting_app


def data_of(page: Page) -> list[tuple[int, object]]:
    return [(event.partition, event.data) for event in page.events]


def follow(server: Splitting, cursors: dict[int, str], until: int) -> tuple[list[tuple[int, object]], dict[int, str]]:
    """Follow the feed for *until* events; return them, and the cursors after them."""
    got: list[tuple[int, object]] = []
    with Feed(server.url) as feed, feed.follow(cursors, poll_interval=0.01) as pages:
        for page in pages:
            got.extend(data_of(page))
            cursors = dict(page.cursors)
            if len(got) >= until:
                break
    return got, cursors


def test_split_while_following_keeps_the_order_and_loses_nothing(splitting: Splitting) -> None:
    splitting.feed.add(0, *range(4))
    got: list[tuple[int, object]] = []
    with Feed(splitting.url) as feed, feed.follow(poll_interval=0.01) as pages:
        for page in pages:
            got.extend(data_of(page))
            if len(got) == 3:
                splitting.feed.continue_in(0, 1)
                splitting.feed.add(1, 4)
                splitting.feed.continue_in(1, 2)
                splitting.feed.add(2, 5)
            if len(got) == 6:
                break

    assert got == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 4), (2, 5)]


def test_partitions_that_inherit_the_history_inherit_the_cursor(splitting: Splitting) -> None:
    splitting.feed.add(0, *range(6))
    got, cursors = follow(splitting, {}, 3)
    assert [data for _, data in got] == [0, 1, 2]

    splitting.feed.replace_by(0, 1, 2)
    splitting.feed.replace_by(2, 3, 4)
    splitting.feed.add(3, 6)
    got, cursors = follow(splitting, cursors, 4)

    assert sorted(data for _, data in got) == [3, 4, 5, 6]
    assert 0 not in cursors
    assert {partition for partition, _ in got} <= {1, 3, 4}


def test_changed_token_alone_disturbs_no_reader(splitting: Splitting) -> None:
    splitting.feed.add(0, *range(9))
    with Feed(splitting.url) as feed, feed.follow(poll_interval=0.01) as pages:
        got = data_of(next(pages))
        splitting.feed.generation += 1
        got += data_of(next(pages))
        splitting.feed.generation += 1
        got += data_of(next(pages))

    assert [data for _, data in got] == list(range(9))


def broken(_: Request) -> Response:
    async def body() -> object:
        yield b'{"data":0}\n{"cursor":"1"}\n'
        raise ConnectionResetError

    return StreamingResponse(body(), media_type="application/x-ndjson")


def test_reader_advances_past_pages_that_break_off(splitting: Splitting) -> None:
    splitting.feed.add(0, *range(3))
    splitting.feed.failures.extend(
        [
            broken,
            lambda _: PlainTextResponse("busy", 503, {"retry-after": "0"}),
            lambda _: Response(b'{"data":0}\n{"cur', media_type="application/x-ndjson"),
            lambda _: PlainTextResponse("oops", 500),
        ]
    )

    got, _ = follow(splitting, {}, 3)

    assert [data for _, data in got] == [0, 1, 2]


class Warned(logging.Handler):
    """Signals the first warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.signal = threading.Event()

    def emit(self, _: logging.LogRecord) -> None:
        self.signal.set()


def test_reader_continues_when_the_server_is_restarted(splitting: Splitting) -> None:
    warned = Warned()
    logging.getLogger("penstock.client").addHandler(warned)
    splitting.feed.add(0, 1)
    with served(splitting_app(splitting.feed)) as url:
        port = int(url.rpartition(":")[2])
        feed = Feed(f"{url}/feed")
        pages = feed.follow(poll_interval=0.01)
        assert data_of(next(pages)) == [(0, 1)]

    with feed, pages, ThreadPoolExecutor() as threads:
        reading = threads.submit(next, pages)
        assert warned.signal.wait(300)
        splitting.feed.add(0, 2)
        with served(splitting_app(splitting.feed), port):
            assert data_of(reading.result(300)) == [(0, 2)]
    logging.getLogger("penstock.client").removeHandler(warned)


def test_event_wakes_a_waiting_reader(waiting: Splitting) -> None:
    with Feed(waiting.url) as feed, feed.follow(wait_seconds=30) as pages:
        waiting.feed.add(0, 1)
        assert data_of(next(pages)) == [(0, 1)]
        waiting.feed.waiting.clear()
        with ThreadPoolExecutor() as threads:
            reading = threads.submit(next, pages)
            assert waiting.feed.waiting.wait(300)
            waiting.feed.add(0, 2)
            assert data_of(reading.result(300)) == [(0, 2)]

    assert len([asked for asked in waiting.feed.requests if asked.get("wait") == "30"]) == 2


@pytest.mark.anyio
async def test_async_reader_stops_waiting_when_it_is_closed_or_cancelled(waiting: Splitting) -> None:
    waiting.feed.add(0, 1)
    got = []

    async with AsyncFeed(waiting.url) as feed:
        pages = feed.follow(wait_seconds=3600)

        async def read() -> None:
            async for page in pages:
                got.extend(data_of(page))
                first.set()

        first = anyio.Event()
        with anyio.fail_after(300):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read)
                await first.wait()
                await pages.aclose()
            async with anyio.create_task_group() as tasks:
                first = anyio.Event()
                pages = feed.follow(wait_seconds=3600)
                tasks.start_soon(read)
                await first.wait()
                tasks.cancel_scope.cancel()

    assert got == [(0, 1), (0, 1)]
