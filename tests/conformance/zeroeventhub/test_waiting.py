"""ZeroEventHub v1, wait: the answer comes the moment that an event does."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import httpx2
import psycopg
import pytest

from penstock.testing.live_hub import live_hub
from tests.served import Page, Served, client_of, until

IN_TIME = 50.0
"""Far below the wait that is asked for, far above what a busy machine needs."""


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


def in_time(future: Future[Page]) -> Page:
    return future.result(timeout=IN_TIME)


def test_a_reader_wakes_when_an_event_is_published(feed4: Served, pool: ThreadPoolExecutor) -> None:
    cursors = feed4.read().cursors
    future = waiting(feed4, pool, lambda: feed4.read(cursors=cursors, wait=55))
    feed4.publish_ids([7], partition=2)
    page = in_time(future)
    assert page.of(2) == [7]
    assert set(page.cursors) == {0, 1, 2, 3}


@pytest.mark.parametrize("n", [1, 2, 8])
def test_a_reader_of_merged_or_sliced_partitions_wakes_too(feed4: Served, pool: ThreadPoolExecutor, n: int) -> None:
    cursors = feed4.read(n).cursors
    future = waiting(feed4, pool, lambda: feed4.read(n, cursors, wait=55))
    feed4.publish_ids([7], partition=3)
    assert in_time(future).ids == [7]


def test_a_reader_of_other_partitions_sleeps_on(feed4: Served, pool: ThreadPoolExecutor) -> None:
    future = waiting(feed4, pool, lambda: feed4.read(cursors={1: "_last"}, wait=55))
    feed4.publish_ids([1], partition=0)
    feed4.publish_ids([2], partition=1)
    assert in_time(future).ids == [2]


def test_all_who_wait_are_woken(feed4: Served, pool: ThreadPoolExecutor) -> None:
    cursors = feed4.read().cursors
    futures = [waiting(feed4, pool, lambda: feed4.read(cursors=cursors, wait=55)) for _ in range(4)]
    feed4.publish_ids([7], partition=0)
    assert [in_time(future).ids for future in futures] == [[7]] * 4


def test_there_is_no_wait_when_there_is_something_to_read(feed4: Served) -> None:
    feed4.publish_ids([1], partition=0)
    begun = time.monotonic()
    assert feed4.read(wait=55).ids == [1]
    assert time.monotonic() - begun < IN_TIME


@pytest.mark.parametrize("wait", ["0", "0.2", "1e-1"])
def test_a_wait_that_is_over_ends_with_cursors(feed4: Served, wait: str) -> None:
    begun = time.monotonic()
    page = feed4.read(wait=wait)
    assert page.events == []
    assert set(page.cursors) == {0, 1, 2, 3}
    assert float(wait) <= time.monotonic() - begun < IN_TIME


@pytest.mark.parametrize("wait", ["61", "3600", "1e300", "9" * 80])
def test_a_wait_beyond_the_limit_is_cut_not_refused(feed: Served, wait: str, pool: ThreadPoolExecutor) -> None:
    future = waiting(feed, pool, lambda: feed.read(wait=wait))
    feed.publish_ids([1])
    assert in_time(future).ids == [1]


def test_a_read_that_wants_no_events_does_not_wait(feed4: Served) -> None:
    begun = time.monotonic()
    assert feed4.read(wait=55, pagesizehint=0).events == []
    assert time.monotonic() - begun < IN_TIME


def test_a_reader_wakes_when_another_process_publishes(database: str, feed4: Served, pool: ThreadPoolExecutor) -> None:
    with live_hub(database) as other, client_of(other) as http:
        future = waiting(feed4, pool, lambda: feed4.read(wait=55))
        Served(http, feed4.name, 4).publish_ids([7], partition=1)
        assert in_time(future).of(1) == [7]


def test_a_reader_wakes_when_a_service_commits_to_its_outbox(
    database: str, feed4: Served, pool: ThreadPoolExecutor
) -> None:
    future = waiting(feed4, pool, lambda: feed4.read(wait=55))
    insert_into_outbox(database, feed4.name, '{"id":7}', 3)
    assert in_time(future).of(3) == [7]


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


def test_a_feed_that_is_dropped_ends_the_wait_with_its_problem_or_with_nothing_new(
    feed4: Served, pool: ThreadPoolExecutor
) -> None:
    answered = threading.Event()

    def read() -> httpx2.Response:
        answer = feed4.get(n=4, cursor0="_last", wait="0.5")
        answered.set()
        return answer

    future = pool.submit(read)
    until(lambda: feed4.waiters() or answered.is_set())
    feed4.drop()
    answer = future.result(timeout=IN_TIME)
    assert answer.status_code in (200, 404)
