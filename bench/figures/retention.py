"""Whether a database stops growing while retention deletes as much as is published, and what publishing feels of it."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from statistics import quantiles

import psycopg

from bench.events import EVENT_BYTES, FEED
from bench.figure import Row, Scale, Target, figure
from bench.load.program import Program
from bench.logs import make_log
from bench.place import Place, file_of
from penstock.client import Client

EVENTS = 10_000_000
SECONDS = 900.0
BATCH = 50
BATCHES_PER_SECOND = 50.0
"""2 500 events a second: what a database with an hour's worth of 9 million events has."""
SPACE, WAIT = Target("<", 1.3), Target("<", 1.5)


@figure("retention", asked_for=True)
def retention(place: Place, scale: Scale) -> Iterable[Row]:
    """A log of ten million events, of which retention deletes as many as are published; by name only."""
    events, seconds = (20_000, 3.0) if scale.quick else (EVENTS, SECONDS)
    for kind in ("SQLite", "PostgreSQL"):
        yield from measure_retention(place, kind, events, seconds)


def measure_retention(place: Place, kind: str, events: int, seconds: float) -> Iterator[Row]:
    """Publish with and without retention to a log of so many *events*, for *seconds* each."""
    url = place.database(kind)
    make_log(url, events)
    live = measure_space(url)
    with (
        place.hub(url) as hub,
        Client(hub.url) as client,
        Program("bench.load.batches_paced", port=hub.port, feed=FEED, batch=BATCH) as publisher,
    ):
        publisher(seconds=min(10.0, seconds), per_second=BATCHES_PER_SECOND)  # Warms up.
        keep(client, events * EVENT_BYTES)
        with largest_space(url) as found:
            kept = publisher(seconds=seconds, per_second=BATCHES_PER_SECOND)["took_ms"]
        keep(client, 1 << 60)
        free = publisher(seconds=seconds / 3, per_second=BATCHES_PER_SECOND)["took_ms"]
    place.drop(url)
    grown = max(found) / live
    yield Row(f"{kind}: the most space beside that of the events", f"{grown:.2f}", "1", grown, SPACE)
    late, usual = (quantiles(each, n=100)[98] for each in (kept, free))
    what = f"{kind}: 99th percentile of a batch of {BATCH}, beside that without retention"
    yield Row(what, f"{late:.1f} ms", f"{usual:.1f} ms", late / usual, WAIT)


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
