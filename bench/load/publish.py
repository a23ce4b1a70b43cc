"""Publishes batches over one connection, one after the other: events as lines, or business events as Nakadi's array."""

import time
from typing import Any, Literal

from bench.events import business_event, line
from bench.load.http1 import Connection, post
from bench.load.program import Run, serve


def make(port: int, feed: str, batch: int, shape: Literal["lines", "array"] = "lines") -> Run:
    """Publish the same *batch* events again and again."""
    request = as_array(feed, batch) if shape == "array" else as_lines(feed, batch)

    def run(seconds: float) -> dict[str, Any]:
        connection = Connection(port)  # A hub closes one that has been idle for half a minute.
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            connection.exchange(request)
            count += batch
        return {"rate": count / (time.perf_counter() - started)}

    return run


def as_lines(feed: str, batch: int) -> bytes:
    return post(f"/feeds/{feed}", "".join(map(line, range(batch))).encode())


def as_array(feed: str, batch: int) -> bytes:
    return post(f"/event-types/{feed}/events", f"[{','.join(map(business_event, range(batch)))}]".encode())


if __name__ == "__main__":
    serve(make)
