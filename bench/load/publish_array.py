"""Publishes arrays of business events in Nakadi's shape over one connection, one after the other."""

import time
from typing import Any

from bench.events import business_event
from bench.load.http1 import Connection, post
from bench.load.program import Run, serve


def make(port: int, feed: str, batch: int) -> Run:
    """Publish the same *batch* events again and again."""
    connection = Connection(port)
    request = post(f"/event-types/{feed}/events", f"[{','.join(map(business_event, range(batch)))}]".encode())

    def run(seconds: float) -> dict[str, Any]:
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            connection.exchange(request)
            count += batch
        return {"rate": count / (time.perf_counter() - started)}

    return run


if __name__ == "__main__":
    serve(make)
