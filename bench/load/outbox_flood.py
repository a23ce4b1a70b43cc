"""Puts events into the outbox as fast as it can, each in a transaction of its own."""

import time
from typing import Any

import psycopg

from bench.events import event
from bench.load.program import Run, serve
from penstock import outbox


def make(url: str, feed: str) -> Run:
    """Connect as a service does."""
    connection = psycopg.connect(url)

    def run(seconds: float) -> dict[str, Any]:
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            outbox.publish(connection, feed, event(count).encode())
            connection.commit()
            count += 1
        return {"rate": count / (time.perf_counter() - started)}

    return run


if __name__ == "__main__":
    serve(make)
