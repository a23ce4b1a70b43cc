"""Makes feed lines of the same rows without HTTP: joined in SQL as the store does, or row by row in Python."""

import sqlite3
import time
from typing import Any

from bench.load.program import Run, serve
from bench.place import file_of
from penstock.cli.serve import keep_large_blocks
from penstock.hub.log.read import CHUNK_ROWS
from penstock.storage import open_store
from penstock.storage.log.events import Frame
from penstock.storage.sqlite.connection import CACHE_KIB
from penstock.storage.sqlite.log.events import place_of
from penstock.wire.log.zeroeventhub import line_frame

_ROWS = "SELECT data FROM penstock_event WHERE place >= ? AND place < ? ORDER BY place"


def make(url: str, partition_id: int, events: int, joined_in: str) -> Run:
    """Read *events* events from the first on, by chunks as large as the hub's, then begin again."""
    keep_large_blocks()
    joins = {"sql": _joins_in_sql, "python": _joins_in_python}[joined_in](url, partition_id)

    def run(seconds: float) -> dict[str, Any]:
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            start = count % events
            stop = min(start + CHUNK_ROWS, events)
            joins(start, stop)
            count += stop - start
        return {"rate": count / (time.perf_counter() - started)}

    return run


def _joins_in_sql(url: str, partition_id: int) -> Any:
    store, frame = open_store(url), Frame(*line_frame(0))

    def joined(start: int, stop: int) -> bytes:
        with store.read() as tx:
            return tx.log.read_lines(partition_id, start, stop, frame, None).body

    return joined


def _joins_in_python(url: str, partition_id: int) -> Any:
    connection = sqlite3.connect(file_of(url))
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.text_factory = bytes  # Text that is sent on need not be decoded and encoded again.
    prefix, separator, suffix = (text.encode() for text in line_frame(0))

    def joined(start: int, stop: int) -> bytes:
        places = place_of(partition_id, start), place_of(partition_id, stop)
        rows = connection.execute(_ROWS, places).fetchall()
        return prefix + separator.join([data for (data,) in rows]) + suffix

    return joined


if __name__ == "__main__":
    serve(make)
