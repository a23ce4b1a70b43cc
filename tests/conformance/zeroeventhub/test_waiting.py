"""ZeroEventHub v1, wait: a reader is answered as soon as there is an event."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import httpx2
import psycopg
import pytest

from penstock.testing.live_hub import live_hub
from tests.served import Page, Served, client_of, until

WOKEN_SECONDS = 50.0
"""Less than the wait of 55 s, at whose end a reader would find the event that has not woken it."""


@pytest.fixture
def database(request: pytest.FixtureRequest, feed4: Served) -> str:
    """The URL of the database behind `feed4`."""
    hubs = [request.getfixturevalue(name) for name in ("sqlite_hub", "postgres_hub")]
    url: str = next(hub.database for hub in hubs if str(feed4.http.base_url).startswith(hub.url))
    return url


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def waiting(feed: Served, pool: ThreadPoolExecutor, read: Callable[[], Page]) -> Future[Page]:
    """Begin *read* and return once the hub has one more waiter."""
    before = feed.waiters()
    future = pool.submit(read)
    until(lambda: feed.waiters() > before or future.done())
    return future


def page_of(future: Future[Page]) -> Page:
    return future.result(timeout=WOKEN_SECONDS)


def test_waiting_reader_wakes_when_an_event_is_published(feed4: Served, pool: ThreadPoolExecutor) -> None:
    cursors = feed4.read().cursors
    future = waiting(feed4, pool, lambda: feed4.read(cursors=cursors, wait=55))
    feed4.publish_ids([7], partition=2)
    page = page_of(future)
    assert page.of(2) == [7]
    assert set(page.cursors) == {0, 1, 2, 3}


@pytest.mark.parametrize("n", [1, 2, 8])
def test_waiting_reader_of_merged_or_sliced_partitions_wakes(feed4: Served, pool: ThreadPoolExecutor, n: int) -> None:
    cursors = feed4.read(n).cursors
    future = waiting(feed4, pool, lambda: feed4.read(n, cursors, wait=55))
    feed4.publish_ids([7], partition=3)
    assert page_of(future).ids == [7]


def test_waiting_reader_is_not_woken_by_other_partitions(feed4: Served, pool: ThreadPoolExecutor) -> None:
    future = waiting(feed4, pool, lambda: feed4.read(cursors={1: "_last"}, wait=55))
    feed4.publish_ids([1], partition=0)
    feed4.publish_ids([2], partition=1)
    assert page_of(future).ids == [2]


def test_all_waiting_readers_wake(feed4: Served, pool: ThreadPoolExecutor) -> None:
    cursors = feed4.read().cursors
    futures = [waiting(feed4, pool, lambda: feed4.read(cursors=cursors, wait=55)) for _ in range(4)]
    feed4.publish_ids([7], partition=0)
    assert [page_of(future).ids for future in futures] == [[7]] * 4


def test_wait_ends_with_cursors_and_no_events_if_none_come(feed4: Served) -> None:
    """A page that has events does not wait, and neither does one that may have none."""
    for arguments in ({"wait": "0"}, {"wait": "1e-1"}, {"wait": "0.05", "pagesizehint": 0}):
        page = feed4.read(**arguments)
        assert (page.events, set(page.cursors)) == ([], {0, 1, 2, 3})
    feed4.publish_ids([1], partition=0)
    assert feed4.read(wait=55).ids == [1]


@pytest.mark.parametrize("wait", ["61", "3600", "1e300", "9" * 80])
def test_wait_beyond_the_limit_is_cut(feed: Served, wait: str, pool: ThreadPoolExecutor) -> None:
    future = waiting(feed, pool, lambda: feed.read(wait=wait))
    feed.publish_ids([1])
    assert page_of(future).ids == [1]


def test_waiting_reader_wakes_when_another_hub_publishes(
    database: str, feed4: Served, pool: ThreadPoolExecutor
) -> None:
    with live_hub(database) as other, client_of(other) as http:
        future = waiting(feed4, pool, lambda: feed4.read(wait=55))
        Served(http, feed4.name, 4).publish_ids([7], partition=1)
        assert page_of(future).of(1) == [7]


def test_waiting_reader_wakes_when_a_service_commits_to_its_outbox(
    database: str, feed4: Served, pool: ThreadPoolExecutor
) -> None:
    future = waiting(feed4, pool, lambda: feed4.read(wait=55))
    insert_into_outbox(database, feed4.name, '{"id":7}', 3)
    assert page_of(future).of(3) == [7]


def insert_into_outbox(database: str, event_type: str, data: str, partition: int) -> None:
    sql = 'INSERT INTO penstock_outbox (event_type, data, "partition") VALUES ({0}, {0}, {0})'
    if database.startswith("sqlite"):
        connection = sqlite3.connect(database.removeprefix("sqlite:///"))
        with connection:
            connection.execute(sql.format("?"), (event_type, data, partition))
        connection.close()
    else:
        with psycopg.connect(database) as session:
            session.execute(sql.format("%s"), (event_type, data, partition))


def test_dropped_feed_ends_the_wait(feed4: Served, pool: ThreadPoolExecutor) -> None:
    answered = threading.Event()

    def read() -> httpx2.Response:
        answer = feed4.get(n=4, cursor0="_last", wait="0.5")
        answered.set()
        return answer

    future = pool.submit(read)
    until(lambda: feed4.waiters() or answered.is_set())
    feed4.drop()
    answer = future.result(timeout=WOKEN_SECONDS)
    assert answer.status_code in (200, 404)
