"""The database under test, as a service beside the hub sees it."""

import sqlite3
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import pytest

from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.storage import Store, open_store
from penstock.storage.log.events import Block, StoredColumns
from penstock.testing.factories import an_event_type

FIRST_AT = 1_700_000_000_000_000
"""When the contract's events are received: microseconds since 1970."""
PATIENCE_SECONDS = 300.0


class Database(NamedTuple):
    """A database and how a service connects to it."""

    url: str
    mark: str
    """How its driver marks a parameter."""
    connect: Callable[[], Any]
    """Opens a DB-API connection; nothing is committed before its `commit`."""

    def run(self, sql: str, *given: Any) -> list[Any]:
        """Run one statement in a transaction of its own and return its rows; `?` marks a parameter."""
        with closing(self.connect()) as connection:
            cursor = connection.execute(sql.replace("?", self.mark), given)
            rows = cursor.fetchall() if cursor.description else []
            connection.commit()
            return list(rows)

    def insert(self, connection: Any, event_type: str, data: Any, **others: Any) -> None:
        """Insert a row into the outbox by plain SQL, as any language would."""
        columns = ", ".join(f'"{name}"' for name in ("event_type", "data", *others))
        marks = ", ".join([self.mark] * (2 + len(others)))
        sql = f"INSERT INTO penstock_outbox ({columns}) VALUES ({marks})"
        connection.execute(sql, (event_type, data, *others.values()))


Blocked = Callable[..., Future[Any]]
"""Calls a function with its arguments in another thread, and returns once that waits for a lock."""


def database_at(url: str) -> Database:
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        return Database(url, "?", lambda: sqlite3.connect(path, isolation_level="IMMEDIATE", timeout=30))
    import psycopg

    return Database(url, "%s", lambda: psycopg.connect(url))


def event_type(name: str = "order.placed", partitions: int = 1, **definition: Any) -> EventType:
    """Return a valid event type; a test gives the members that it is about."""
    return EventType.parse(an_event_type(name, partition_count=partitions, **definition))


def created(store: Store, name: str = "order.placed", partitions: int = 1) -> StoredFeed:
    """Create an event type and return its feed."""
    with store.write() as tx:
        tx.registry.insert(event_type(name, partitions), FIRST_AT)
        feed = tx.registry.find(name)
    assert feed is not None
    return feed


def row(partition_id: int, offset: int, data: bytes = b"{}", **others: Any) -> Block:
    """Return a block of one event; *others* are received_at, key, kind, headers."""
    received_at = others.get("received_at", FIRST_AT + offset)
    own = (others.get("key"), others.get("kind"), others.get("headers"), data)
    return Block(partition_id, offset, received_at, [own])


def data_of(columns: StoredColumns) -> list[bytes]:
    """Return each event's data."""
    ends = accumulate(array("i", columns.sizes), initial=0)
    return [columns.data[start:end] for start, end in pairwise(ends)]


def append(store: Store, *blocks: Block) -> None:
    with store.write() as tx:
        tx.log.find_heads(sorted({block.partition_id for block in blocks}), lock=True)
        tx.log.append(blocks)


def purge(store: Store, events: int = 10) -> int:
    """Delete up to *events* events below a floor, or else a dropped partition, and return how many of these."""
    with store.write() as tx:
        for partition_id, start, stop in tx.removal.list_unswept(1):
            return tx.removal.delete(partition_id, start, min(stop, start + events))
        return int(tx.registry.purge_partition())


def until_waiting(database: Database, count: int = 1) -> None:
    """Return once so many transactions wait for locks of others, in PostgreSQL."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while database.run(sql)[0][0] != count:
        assert time.monotonic() < deadline, f"{count} should be waiting: {database.run(sql)}"
        time.sleep(0.005)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Begin all *calls* at once, each in a thread of its own, and return their results."""
    go = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        go.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return [each.result() for each in [threads.submit(run, call) for call in calls]]


class Contract:
    """The fixtures of the contract. A subclass gives the fixture `url`: that of a database without events.

    If a store has made its tables already, it gives the fixture `empty_url`, too: that of one without tables.
    """

    @pytest.fixture
    def database(self, url: str) -> Database:
        return database_at(url)

    @pytest.fixture
    def store(self, database: Database) -> Iterator[Store]:
        """Return a store on it, with its tables."""
        store = open_store(database.url)
        store.migrate()
        yield store
        store.close()

    @pytest.fixture
    def other(self, store: Store, database: Database) -> Iterator[Store]:
        """Return a second store on the same database, as another process has one."""
        store.check()
        other = open_store(database.url)
        yield other
        other.close()

    @pytest.fixture
    def blocked(self, database: Database) -> Iterator[Blocked]:
        """Return how to call a function that waits for a lock, in PostgreSQL."""
        with ThreadPoolExecutor(1) as threads:

            def call(function: Callable[..., Any], *given: Any) -> Future[Any]:
                future = threads.submit(function, *given)
                until_waiting(database)
                assert not future.done()
                return future

            yield call
