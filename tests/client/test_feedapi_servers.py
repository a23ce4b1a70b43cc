"""The client reads a FeedAPI server whose partitions split, and stops waiting for it at once."""

import anyio
import pytest

from penstock.client import AsyncFeed, Feed, Page
from tests.client.conftest import Splitting


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
