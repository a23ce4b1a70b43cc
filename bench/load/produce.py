"""Publishes numbered batches over one connection, one after the other, as an idempotent producer does."""

import time
from typing import Any
from uuid import uuid4

from bench.events import line
from bench.load.http1 import Connection
from bench.load.program import Run, serve


def make(port: int, feed: str, batch: int) -> Run:
    """Publish the same *batch* events again and again, with numbers that go on."""
    connection = Connection(port)
    body = "".join(map(line, range(batch))).encode()
    group, sent = uuid4().hex, 0
    head = (
        f"POST /event-types/{feed}/partitions/0/events HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n"
        f"Producer-Group: {group}\r\nProducer-Epoch: 0\r\nProducer-Sequence: "
    ).encode()

    def run(seconds: float) -> dict[str, Any]:
        nonlocal sent
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            connection.exchange(b"%b%d\r\n\r\n%b" % (head, sent, body))
            sent += batch
            count += batch
        return {"rate": count / (time.perf_counter() - started)}

    return run


if __name__ == "__main__":
    serve(make)
