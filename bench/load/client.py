"""Publishes batches with the Python client, plain or idempotently."""

import time
from typing import Any, Literal

from bench.events import event
from bench.load.program import Run, serve
from penstock.client import Client, IdempotentProducer


def make(port: int, feed: str, batch: int, kind: Literal["plain", "idempotent"]) -> Run:
    """Publish the same *batch* events again and again."""
    client = Client(f"http://127.0.0.1:{port}")
    producer = IdempotentProducer(client, feed)
    events = [event(number).encode() for number in range(batch)]

    def publish() -> None:
        if kind == "idempotent":
            producer.send(events, partition=0)
        else:
            client.publish(feed, events, batch_events=batch)

    def run(seconds: float) -> dict[str, Any]:
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            publish()
            count += batch
        return {"rate": count / (time.perf_counter() - started)}

    return run


if __name__ == "__main__":
    serve(make)
