"""Sends the same request again and again over several connections at once: batches of events, or pages of a feed."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from bench.events import line
from bench.load.http1 import Connection, get, post
from bench.load.program import Run, serve


def make(*, port: int, feed: str, kind: Literal["batches", "pages"], events: int, connections: int, token: str) -> Run:
    """Publish or read *events* events with each request."""
    request: Callable[[], bytes] = {
        "batches": lambda: post(f"/feeds/{feed}", "".join(map(line, range(events))).encode(), token),
        "pages": lambda: get(f"/feeds/{feed}?n=1&pagesizehint={events}&cursor0=_first", token=token),
    }[kind]
    sent = request()

    def send(until: float) -> int:
        connection, count = Connection(port), 0
        while time.perf_counter() < until:
            connection.exchange(sent)
            count += events
        return count

    def run(seconds: float) -> dict[str, Any]:
        started = time.perf_counter()
        with ThreadPoolExecutor(connections) as threads:
            count = sum(threads.map(send, [started + seconds] * connections))
        return {"rate": count / (time.perf_counter() - started)}

    return run


if __name__ == "__main__":
    serve(make)
