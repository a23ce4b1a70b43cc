"""Whether a database stops growing while retention deletes as much as is published, and what publishing feels of it."""

import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from statistics import quantiles

import psycopg

from bench.events import EVENT_BYTES, FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.load.program import Program
from bench.logs import make_log
from bench.place import Place, file_of
from penstock.client import Client

EVENTS = 10_000_000
SECONDS = 240.0
LEFT = 100_000
"""Events are deleted once there are no more than that."""
BATCH = 50
BATCHES_PER_SECOND = 50.0
"""2 500 events a second: what a database with an hour's worth of 9 million events has."""
SPACE, WAIT = Target("<", 1.3), Target("<", 1.5)
"""On SQLite, where writers wait for each other, nobody is promised how long."""


@figure("retention", "lifetime", asked_for=True)
def retention(place: Place, scale: Scale) -> Iterable[Row]:
    """A log of ten million events, of which retention deletes as many as are published; by name only."""
    events, seconds = (20_000, 3.0) if scale.quick else (EVENTS, SECONDS)
    for kind in ("SQLite", "PostgreSQL"):
        yield from measure_retention(place, kind, events, seconds)


def measure_retention(place: Place, kind: str, events: int, seconds: float) -> Iterator[Row]:
    """Publish to a log of *events*: for *seconds* while it stays as large, and until all of them are deleted."""
    url, wait = place.database(kind), WAIT if kind == "PostgreSQL" else None
    make_log(url, events)
    live = measure_space(url)
    with (
        place.hub(url) as hub,
        Client(hub.url) as client,
        Program("bench.load.batches_paced", port=hub.port, feed=FEED, batch=BATCH) as publisher,
    ):

        def publish(seconds: float) -> list[float]:
            found: list[float] = publisher(seconds=seconds, per_second=BATCHES_PER_SECOND)["took_ms"]
            return found

        publish(min(10.0, seconds))  # Warms up.
        free = publish(seconds / 3)
        keep(client, events * EVENT_BYTES)
        with largest_space(url) as found:
            kept = publish(seconds)
        keep(client, EVENT_BYTES)
        began, deleting = time.monotonic(), publish(seconds / 30)
        while has_many(url):
            deleting += publish(seconds / 30)
        deleted = events / (time.monotonic() - began)
    place.drop(url)
    grown = max(found) / live
    yield Row(f"{kind}: the most space beside that of the events", f"{grown:.2f}", "1", grown, SPACE)
    late, latest, usual = (quantiles(each, n=100)[98] for each in (kept, deleting, free))
    what = f"{kind}: 99th percentile of a batch of {BATCH}, as many deleted as published, beside without retention"
    yield Row(what, f"{late:.1f} ms", f"{usual:.1f} ms", late / usual, wait)
    what = f"{kind}: the same, while all events are deleted, {rate(deleted)}"
    yield Row(what, f"{latest:.1f} ms", f"{usual:.1f} ms", latest / usual, wait)


def has_many(url: str) -> bool:
    """Return whether more than `LEFT` events are in the database."""
    query = f"SELECT count(*) FROM (SELECT 1 FROM penstock_event LIMIT {LEFT + 1}) AS few"
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(file_of(url))) as connection:
            [(count,)] = connection.execute(query)
    else:
        with psycopg.connect(url) as connection:
            [(count,)] = connection.execute(query.encode())
    return int(count) > LEFT


def keep(client: Client, size: int) -> None:
    """Keep so many bytes of events from now on."""
    client.replace_event_type({**client.event_type(FEED), "options": {"retention_bytes": size}})


def measure_space(url: str) -> int:
    """Return the bytes that events take, with their index."""
    if url.startswith("sqlite"):
        path = file_of(url)
        return sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    with psycopg.connect(url) as connection:
        [(size,)] = connection.execute("SELECT pg_total_relation_size('penstock_event')").fetchall()
        return int(size)


@contextmanager
def largest_space(url: str) -> Iterator[list[int]]:
    """Measure the space every second, for as long as the block runs."""
    found, over = [measure_space(url)], threading.Event()

    def measure() -> None:
        while not over.wait(1):
            found.append(measure_space(url))

    thread = threading.Thread(target=measure)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
