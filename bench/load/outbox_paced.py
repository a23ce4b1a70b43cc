"""Puts single events into the outbox, each in a transaction of its own.

It notes when each began to commit, and how long its transaction took.
"""

import random
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import psycopg

from bench.events import event
from bench.load.program import Run, serve
from bench.place import file_of
from penstock import outbox


def make(url: str, feed: str) -> Run:
    """Connect as a service does."""
    if url.startswith("sqlite"):
        connection: Any = sqlite3.connect(file_of(url), isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        begin = "BEGIN IMMEDIATE"
    else:
        connection, begin = psycopg.connect(url, autocommit=True), "BEGIN"
    execute: Callable[[str], object] = connection.execute

    def run(first: int, count: int, per_second: float) -> dict[str, Any]:
        """Commit *count* events, numbered from *first*, at random moments, so that no poller is met in step."""
        at, took_ms = {}, []
        for number in range(first, first + count):
            time.sleep(random.uniform(0.0, 2.0 / per_second))
            began = time.perf_counter()
            execute(begin)
            outbox.publish(connection, feed, event(number).encode())
            at[number] = time.monotonic_ns()
            execute("COMMIT")
            took_ms.append(1000 * (time.perf_counter() - began))
        return {"at": at, "took_ms": took_ms}

    return run


if __name__ == "__main__":
    serve(make)
