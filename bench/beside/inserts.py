"""Puts the same rows into the same table without a hub: `executemany` on SQLite, `COPY` on PostgreSQL."""

import time
from collections.abc import Callable
from typing import Any

import psycopg

from bench.events import EVENT_BYTES, event
from bench.load.program import Run, serve
from bench.place import file_of
from penstock.storage.sqlite.connection import connect
from penstock.storage.sqlite.log.events import place_of

_INSERT = """INSERT INTO penstock_event (place, received_at, shape, key, kind, headers, data)
             VALUES (?, ?, ?, ?, ?, ?, ?)"""
_COPY = 'COPY penstock_event (partition_id, "offset", received_at, key, kind, headers, data) FROM STDIN'


def make(url: str, partition_id: int, batch: int) -> Run:
    """Insert *batch* events a transaction, on disk before the next one begins."""
    insert = (_sqlite if url.startswith("sqlite") else _postgres)(url, partition_id, [event(n) for n in range(batch)])
    stored = 0

    def run(seconds: float) -> dict[str, Any]:
        nonlocal stored
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            insert(stored)
            stored += batch
            count += batch
        return {"rate": count / (time.perf_counter() - started)}

    return run


def _sqlite(url: str, partition_id: int, events: list[str]) -> Callable[[int], None]:
    shape = chr(EVENT_BYTES)
    connection = connect(file_of(url))  # With the hub's own settings.

    def insert(start: int) -> None:
        now = time.time_ns() // 1000
        first = place_of(partition_id, start)
        rows = [(place, now, shape, None, None, None, data) for place, data in enumerate(events, first)]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_INSERT, rows)
        connection.execute("COMMIT")

    return insert


def _postgres(url: str, partition_id: int, events: list[str]) -> Callable[[int], None]:
    connection = psycopg.connect(url, autocommit=True)
    encoded = [data.encode() for data in events]

    def insert(start: int) -> None:
        now = time.time_ns() // 1000
        rows = [
            b"%d\t%d\t%d\t\\N\t\\N\t\\N\t%b\n" % (partition_id, offset, now, data)
            for offset, data in enumerate(encoded, start)
        ]
        with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.write(b"".join(rows))

    return insert


if __name__ == "__main__":
    serve(make)
