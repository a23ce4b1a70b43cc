"""Runs processors in a process of their own: streams in memory, or a hub's feed into a table."""

import resource
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.load.program import Run, serve
from penstock.client import Client
from penstock.processing import FeedSource, LocalProcessor, Rules, StreamEvent
from penstock.processing.outcomes import Outcome, retry
from penstock.processing.projections.projection import Projection
from penstock.processing.sources import IterableSource, MemorySource

BATCH: int = 1_000
KIB: int = 1024
LATE: int = 15


class CarrierMonth(NamedTuple):
    carrier: str
    month: int


class Delays(msgspec.Struct):
    flights: int = 0
    late: int = 0


def month_of(event: StreamEvent) -> CarrierMonth | None:
    return CarrierMonth(event.data["carrier"], event.data["month"])


def flown(delays: Delays, event: StreamEvent) -> Delays:
    delays.flights += 1
    delays.late += (event.data["dep_delay"] or 0) > LATE
    return delays


def make(url: str, feed: str, directory: str) -> Run:
    """Be ready for whatever is asked for."""
    runs: dict[str, Callable[..., dict[str, Any]]] = {
        "local": _local,
        "memory": _memory,
        "memory held": _memory_held,
        "latency": lambda **asked: _latency(url, feed, **asked),
        "projection": lambda **asked: _projection(url, feed, directory, **asked),
        "one by one": lambda **asked: _one_by_one(url, feed, directory, **asked),
    }

    def run(what: str, **asked: Any) -> dict[str, Any]:
        return runs[what](**asked)

    return run


def _nothing(stream: str, events: Sequence[Any]) -> None:
    """Handle events by doing nothing."""


def _streams(events: int, streams: int) -> Iterator[list[StreamEvent]]:
    names, counts = [f"stream-{number}" for number in range(streams)], [0] * streams
    for first in range(0, events, BATCH):
        made = []
        for number in range(first, min(events, first + BATCH)):
            which = number * 7919 % streams
            made.append(StreamEvent(names[which], counts[which], "event", b'{"n":1}'))
            counts[which] += 1
        yield made


def _local(events: int, streams: int) -> dict[str, Any]:
    source = MemorySource()
    for made in _streams(events, streams):
        source.deliver(made)
    began = time.perf_counter()
    with LocalProcessor(_nothing, source) as running:
        running.wait_until_caught_up(600)
        seconds = time.perf_counter() - began
    return {"seconds": seconds}


def _memory(events: int, streams: int) -> dict[str, Any]:
    batches = (made for made in _streams(events, streams))
    with LocalProcessor(_nothing, IterableSource(batches)) as running:
        running.wait_until_caught_up(3600)
    return {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB}


def _memory_held(events: int, streams: int) -> dict[str, Any]:
    """Read for a processor that one stream holds back, until it may read no further."""
    read, rules = 0, Rules(batches_ahead=events // BATCH + 1)

    def batches() -> Iterator[list[StreamEvent]]:
        nonlocal read
        for made in _streams(events, streams):
            read += len(made)
            yield made

    def handle(stream: str, handed: Sequence[Any]) -> Outcome | None:  # noqa: ARG001 - As handlers are called.
        return retry(3600) if stream == "stream-0" else None

    with LocalProcessor(handle, IterableSource(batches()), rules=rules) as running:
        while (
            min(rules.events_ahead, events) > (ahead := running.snapshot.events_ahead)
            or running.snapshot.events["ready"]
        ):
            time.sleep(0.05)
        time.sleep(1)  # It would go on reading, if it did.
        assert ahead == running.snapshot.events_ahead
        assert read <= ahead + 2 * BATCH, f"{read} read of which {ahead} are with the processor"
    return {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB}


def _latency(url: str, feed: str, events: int, per_second: float) -> dict[str, Any]:
    came: list[float] = []
    sent: dict[str, float] = {}

    def handle(stream: str, handed: Sequence[StreamEvent]) -> None:  # noqa: ARG001 - Any stream.
        now = time.perf_counter()
        came.extend((now - sent.pop(event.data["id"])) * 1000 for event in handed)

    with LocalProcessor(handle, FeedSource(url, feed, start="latest")) as running, Client(url) as client:
        running.wait_until_caught_up(60)
        began = time.perf_counter()
        for number in range(events):
            time.sleep(max(0.0, began + number / per_second - time.perf_counter()))
            sent[f"{number}"] = time.perf_counter()
            client.publish(feed, {"id": f"{number}"})
        running.wait_until_caught_up(60)
    return {"milliseconds": came}


def _projection(url: str, feed: str, directory: str, events: int) -> dict[str, Any]:
    database = Path(directory) / "delays.db"
    database.unlink(missing_ok=True)
    projection = Projection("delays", Delays, flown, key=month_of)
    began = time.perf_counter()
    with projection.local(FeedSource(url, feed), f"sqlite:///{database}") as running:
        running.wait_until_caught_up(600)
    seconds = time.perf_counter() - began
    with closing(sqlite3.connect(database)) as connection:
        [(found,)] = connection.execute("SELECT sum(flights) FROM delays").fetchall()
    assert found == events, f"{found} flights of {events}"
    return {"seconds": seconds}


def _one_by_one(url: str, feed: str, directory: str, events: int) -> dict[str, Any]:
    """Read with the client, and commit each event by itself, up to so many."""
    database = Path(directory) / "one_by_one.db"
    database.unlink(missing_ok=True)
    done = 0
    with closing(sqlite3.connect(database)) as connection, Client(url) as client:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "CREATE TABLE delays (carrier TEXT, month INT, flights INT, late INT, PRIMARY KEY (carrier, month))"
        )
        reading = client.feed(feed)
        cursors = reading.cursors()
        began = time.perf_counter()
        while done < events:
            page = reading.read(cursors)
            for event in page.events:
                late = (event.data["dep_delay"] or 0) > LATE
                connection.execute(
                    "INSERT INTO delays VALUES (?, ?, 1, ?) ON CONFLICT DO UPDATE SET flights = flights + 1, "
                    "late = late + excluded.late",
                    (event.data["carrier"], event.data["month"], late),
                )
                connection.commit()
            done += len(page.events)
            cursors = dict(page.cursors)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "events": done}


if __name__ == "__main__":
    serve(make)
