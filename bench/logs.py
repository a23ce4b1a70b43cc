"""Logs to measure with: feeds with any number of events, made by SQL alone, a thousand at one time as in batches."""

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import psycopg

from bench.events import AFTER, BEFORE, DIGITS, EVENT_BYTES, FEED
from bench.place import file_of
from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.storage.sqlite.log.events import BEGINS, place_of
from penstock.testing.factories import an_event_type

ANY_OBJECT: Final[Mapping[str, Any]] = {}
_SQLITE: Final = f"""
    WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n + 1 < :count)
    INSERT INTO penstock_event (place, received_at, shape, data)
    SELECT :first + n, :at + n / 1000, iif(n % 1000, '', '{BEGINS}') || char({EVENT_BYTES}),
           :before || substr('{"0" * DIGITS}' || n, -{DIGITS}) || :after
    FROM number"""
_POSTGRES: Final = f"""
    INSERT INTO penstock_event (partition_id, "offset", received_at, data)
    SELECT %(partition_id)s, n, %(at)s + n / 1000, %(before)s || lpad(n::text, {DIGITS}, '0') || %(after)s
    FROM generate_series(0, %(count)s - 1) AS n"""


def make_feed(url: str, partitions: int = 1, schema: Mapping[str, Any] = ANY_OBJECT) -> Sequence[int]:
    """Create the tables and the feed; return the partitions' ids in the store."""
    store = open_store(url)
    try:
        store.migrate()
        hub = Hub(store)
        written = {"type": "json_schema", "schema": json.dumps(schema)}
        hub.registry.create(an_event_type(FEED, partition_count=partitions, schema=written))
        return hub.registry.load(FEED).partition_ids
    finally:
        store.close()


def make_log(url: str, count: int, partitions: int = 1, schema: Mapping[str, Any] = ANY_OBJECT) -> int:
    """The same, with *count* events in it, as many in each partition; return the id of the first."""
    partition_ids = make_feed(url, partitions, schema)
    shared = {"count": count // partitions, "at": time.time_ns() // 1000, "before": BEFORE, "after": AFTER}
    each = [shared | {"partition_id": partition_id} for partition_id in partition_ids]
    if url.startswith("sqlite"):
        _fill_sqlite(url, each)
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            for given in each:
                connection.execute(_POSTGRES, given)
            connection.execute("VACUUM ANALYZE penstock_event")
            connection.execute("CHECKPOINT")
    return partition_ids[0]


def cursor_at(offset: int) -> str:
    """Return the cursor of partition 0 of the feed that wants *offset* next."""
    return FeedCursor(feed_mark(FEED), 1, FeedView(1, 0, 1), (offset,)).encode()


def _fill_sqlite(url: str, each: Iterable[dict[str, Any]]) -> None:
    """Without a journal and without waiting for the disk: if the machine stops now, the benchmark is lost anyway."""
    connection = sqlite3.connect(file_of(url), isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        for given in each:
            connection.execute(_SQLITE, given | {"first": place_of(given["partition_id"], 0)})
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
