"""Scenes of the promises: hubs, publishers, readers, and services beside them."""

import http.client
import json
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from penstock.core.events.event import NewEvent
from penstock.core.log.cursor import FIRST
from penstock.hub.background import Clock, system_clock
from penstock.hub.hub import Hub
from penstock.hub.log.read import WantedPartition
from penstock.storage import Store, open_store
from penstock.storage.log.events import Block, Frame, KindFilter
from penstock.testing.factories import an_event_type
from tests.reading import open_settled
from tests.store_contract import Database, database_at

NAME = "order.placed"
JOINED = Frame("", "\n", "")
PATIENCE_SECONDS = 300.0
IDLE_SECONDS = 3.0
"""After which a connection is not used again: the hub closes it after five seconds."""


@contextmanager
def hub_on(
    url: str,
    *,
    clock: Clock = system_clock,
    starts: bool = True,
    partitions: int | None = None,
    replicas: Sequence[str] = (),
    **definition: Any,
) -> Iterator[Hub]:
    """Run a hub in this process; with *partitions*, its event type is created first.

    A hub that does not start does what it is asked, and moves and sweeps nothing by itself.
    """
    store = open_store(url, replicas=replicas)
    store.migrate()
    hub = Hub(store, clock=clock)
    if starts:
        hub.start()
    try:
        if partitions is not None:
            create(hub, partitions=partitions, **definition)
        yield hub
    finally:
        hub.stop()


def create(hub: Hub, name: str = NAME, *, partitions: int = 1, **definition: Any) -> None:
    """Create an event type whose partitions are chosen by the test."""
    traits = {"partition_count": partitions, "partition_strategy": "user_defined"} | definition
    hub.registry.create(an_event_type(name, **traits))


def event(data: Any, partition: int = 0, **others: Any) -> NewEvent:
    """Return a new event."""
    return NewEvent.of(json.dumps(data).encode(), partition=partition, **others)


class Follower:
    """A reader that keeps its cursors: it follows partitions of a feed from the beginning, in pages of any size."""

    def __init__(self, hub: Hub, partitions: Sequence[int] = (0,), name: str = NAME) -> None:
        self.hub = hub
        self.name = name
        self.cursors = dict.fromkeys(partitions, FIRST)
        self.found: dict[int, list[Any]] = {partition: [] for partition in partitions}
        self.uses_replicas = True

    def page(self, size: int = 1000, kinds: KindFilter | None = None, n: int | None = None) -> int:
        """Read one page and return how many events it had."""
        wanted = [
            WantedPartition(f"cursor{partition}", partition, cursor) for partition, cursor in self.cursors.items()
        ]
        reading = open_settled(self.hub, self.name, n, wanted, size, kinds=kinds)._replace(
            uses_replicas=self.uses_replicas
        )
        count = 0
        for track in reading.tracks:
            while chunk := self.hub.log.reader.read_next_lines(reading, track, JOINED):
                lines = chunk.body.split(b"\n") if chunk.kept else []
                assert len(lines) == chunk.kept
                self.found[track.view.partition] += map(json.loads, lines)
                count += chunk.kept
            self.cursors[track.view.partition] = track.cursor
        return count

    def all(self, size: int = 1000) -> list[Any]:
        """Read to the end and return everything found so far, partition by partition."""
        while self.page(size):
            pass
        return [each for partition in sorted(self.found) for each in self.found[partition]]


def feed(hub: Hub, partition: int = 0, name: str = NAME) -> list[Any]:
    """Return all events of one partition."""
    return Follower(hub, (partition,), name).all(100_000)


@contextmanager
def service(url: str) -> Iterator[tuple[Database, Any]]:
    """Connect a service to the database, with a transaction of its own."""
    database = database_at(url)
    with closing(database.connect()) as connection:
        yield database, connection


def commit_to_outbox(url: str, *rows: Any, name: str = NAME) -> None:
    """Commit events to the outbox in one transaction."""
    with service(url) as (database, connection):
        for row in rows:
            database.insert(connection, name, json.dumps(row), partition=0)
        connection.commit()


def fill_outbox(url: str, count: int, name: str = NAME) -> None:
    """Commit *count* numbered events to the outbox in one statement."""
    rows_of(
        url,
        f"""WITH RECURSIVE numbered (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbered WHERE n < {count - 1})
            INSERT INTO penstock_outbox (event_type, data, "partition")
            SELECT '{name}', '{{"n":' || n || '}}', 0 FROM numbered""",
    )


@contextmanager
def slow_append(store: Store, hub: Hub, data: bytes = b'{"by":"slow"}', name: str = NAME) -> Iterator[None]:
    """Append an event to partition 0 as a hub that is slow between its lock and its commit: while the block runs."""
    partition_id = hub.registry.load(name).partition_ids[0]
    with store.write() as tx:
        head = tx.log.find_heads([partition_id], lock=True)[partition_id]
        tx.log.append([Block(partition_id, head.next_offset, head.received_at, [(None, None, None, data)])])
        yield


def assert_dense(url: str) -> None:
    """Assert that the offsets of each partition begin with 0 and have no holes; swept-away feeds do not count."""
    sql = """SELECT e.partition_id, min(e."offset"), max(e."offset") + 1 - count(*)
             FROM penstock_event AS e JOIN penstock_partition AS p ON p.id = e.partition_id
             WHERE p.event_type_id IS NOT NULL GROUP BY e.partition_id
             HAVING min(e."offset") <> 0 OR max(e."offset") + 1 <> count(*)"""
    assert rows_of(url, sql) == []


def assert_outbox_is_empty(url: str, *, rejected: int = 0) -> None:
    """Assert that the outbox has been moved, but for as many rows as were *rejected*."""
    counts = "SELECT (SELECT count(*) FROM penstock_outbox), (SELECT count(*) FROM penstock_rejected)"
    assert rows_of(url, counts) == [(0, rejected)]


def seeded(given: int | None = None) -> random.Random:
    """Return a source of chance and print its seed; PENSTOCK_SEED=... repeats a run."""
    seed = given if given is not None else int(os.environ.get("PENSTOCK_SEED") or random.SystemRandom().getrandbits(32))
    print(f"PENSTOCK_SEED={seed}")  # noqa: T201 - pytest shows it where a test has failed
    return random.Random(seed)


def until(condition: Callable[[], Any], what: str) -> None:
    """Wait until *condition* holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"after {PATIENCE_SECONDS:g} s it does not hold that {what}"
        time.sleep(0.005)


def rows_of(url: str, sql: str) -> list[Any]:
    """Run one statement in the database and return its rows."""
    return database_at(url).run(sql)


def waiting_for_locks(url: str) -> int:
    """Return how many sessions of this PostgreSQL database wait for a lock."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return int(rows_of(url, sql)[0][0])


DRIVER_ERRORS = (sqlite3.Error, psycopg.Error)


class Remote:
    """A hub over HTTP, on one connection."""

    def __init__(self, port: int, name: str = NAME) -> None:
        self.name = name
        self.path = f"/feeds/{name}"
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        self._used_at = time.monotonic()

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        """Send a request and return status, body and headers."""
        if time.monotonic() - self._used_at > IDLE_SECONDS:
            self._connection.close()
        try:
            self._connection.request(method, path, body, headers or {})
            answer = self._connection.getresponse()
            return answer.status, answer.read(), answer.headers
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        finally:
            self._used_at = time.monotonic()

    def publish(self, *events: Any, partition: int = 0) -> tuple[int, Any]:
        """Publish in one request and return the status and the answer."""
        lines = (json.dumps({"data": each, "partition": partition}).encode() for each in events)
        status, body, _ = self.ask("POST", self.path, b"\n".join(lines))
        return status, json.loads(body)

    def page(self, cursor: str, partition: int = 0, n: int = 1, size: int = 1000) -> tuple[list[Any], str]:
        """Read one page of one partition and return its events and the cursor after it."""
        path = f"{self.path}?n={n}&cursor{partition}={cursor}&pagesizehint={size}"
        status, body, _ = self.ask("GET", path)
        assert status == 200, body
        lines = [json.loads(line) for line in body.splitlines()]
        return [line["data"] for line in lines if "data" in line], lines[-1]["cursor"]

    def all(self, partition: int = 0, n: int = 1) -> list[Any]:
        """Read one partition from its beginning to its end."""
        found, cursor = self.page(FIRST, partition, n, 100_000)
        while True:
            more, cursor = self.page(cursor, partition, n, 100_000)
            if not more:
                return found
            found += more

    def create(self, partitions: int = 1, **definition: Any) -> None:
        """Create the event type whose partitions are chosen by the test."""
        traits = {"partition_count": partitions, "partition_strategy": "user_defined"} | definition
        body = json.dumps(an_event_type(self.name, **traits)).encode()
        status, said, _ = self.ask("POST", "/event-types", body)
        assert status == 201, said

    def close(self) -> None:
        """Hang up."""
        self._connection.close()
