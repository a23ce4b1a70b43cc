"""The client reads a FeedAPI server with splitting partitions, changing tokens, and failures."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

from penstock.client import AsyncFeed, Feed, Page
from tests.client.conftest import Splitting
from tests.client.loopback import served
from tests.client.splitting_server import splitting_app


def data_of(page: Page) -> list[tuple[int, object]]:
    return [(event.partition, event.data) for event in page.events]


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
