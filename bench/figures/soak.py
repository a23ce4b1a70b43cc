"""An hour of steady publishing with retention, sealing and readers: does anything grow, slow down, or get lost."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure
from bench.figures.retention import measure_space
from bench.place import Place
from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.errors import CursorExpired
from penstock.testing.live_hub import LiveHub, live_hub

PARTITIONS: Final = 4
BATCH: Final = 50
BATCHES_PER_SECOND: Final = 10.0
PAD: Final = "x" * 300
HOUR: Final = 3600.0
SCHEMA: Final = {"properties": {"n": {"type": "integer"}, "pad": {"type": "string"}}}
GROWTH, LOST = Target("<=", 1.2), Target("<=", 0.0)


@dataclass
class Notes:
    """What was seen of one database's hub."""

    published: int = 0
    took: list[tuple[float, float]] = field(default_factory=list)
    """When each batch was sent, and how many seconds it took."""
    followed: int = 0
    """Events that the reader of the newest has read."""
    reread: int = 0
    """Events that the reader of the whole history has read."""
    expired: int = 0
    """How often what a reader wanted had been deleted."""
    wrong: list[str] = field(default_factory=list)
    space: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    files: list[float] = field(default_factory=list)


@figure("soak", "lifetime", asked_for=True)
def soak(place: Place, scale: Scale) -> Iterable[Row]:
    """500 events a second, sealed after two minutes and deleted after fifteen, and two readers, for an hour."""
    seconds = 60.0 if scale.quick else HOUR
    notes = {kind: Notes() for kind in ("SQLite", "PostgreSQL")}
    over = threading.Event()
    with ExitStack() as stack:
        for kind, each in notes.items():
            url, tier = place.database(kind), place.directory / f"cold-{kind}"
            sealing = ["--cold", tier.as_uri(), "--cold-after", f"{seconds / 30:g}s"]
            hub = stack.enter_context(live_hub(url, log=place.log, options=sealing))
            create(hub, round(seconds / 4 * 1_000))
            stack.enter_context(working(hub, url, tier, each, over))
        stack.callback(over.set)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            over.wait(min(left, seconds / 20))
            print("    " + "; ".join(f"{kind} {describe(each)}" for kind, each in notes.items()), flush=True)
    for kind, each in notes.items():
        yield from rows_of(kind, each)


def create(hub: LiveHub, retention_ms: int) -> None:
    """Create the feed."""
    with Client(hub.url) as client:
        schema = {"type": "json_schema", "schema": json.dumps(SCHEMA)}
        options = {"retention_time": retention_ms}
        client.create_event_type(
            FEED, partition_count=PARTITIONS, partition_strategy="user_defined", schema=schema, options=options
        )


def describe(notes: Notes) -> str:
    """Return how it goes."""
    return (
        f"{notes.published:,} published, {notes.followed:,} followed, {notes.reread:,} read again, "
        f"{notes.space[-1] / 1e6:.0f} MB in the database, {notes.files[-1] / 1e6:.0f} MB in files, "
        f"{notes.memory[-1] / 1e6:.0f} MB of memory" + (f", WRONG: {notes.wrong[0]}" if notes.wrong else "")
    )


@contextmanager
def working(hub: LiveHub, url: str, tier: Path, notes: Notes, over: threading.Event) -> Iterator[None]:
    """Have threads publish, read and look, for as long as the block runs."""

    def run(work: Callable[[Client, Notes, threading.Event], None]) -> None:
        try:
            with Client(hub.url) as client:
                work(client, notes, over)
        except Exception as error:  # noqa: BLE001 - it is told at the end
            notes.wrong.append(f"{work.__name__}: {type(error).__name__}: {error}")

    def look(_: Client, notes: Notes, over: threading.Event) -> None:
        while not over.is_set():
            notes.space.append(measure_space(url))
            notes.files.append(sum(each.stat().st_size for each in existing(tier)))
            notes.memory.append(resident(hub.pid))
            over.wait(2)

    threads = [threading.Thread(target=run, args=[work]) for work in (publish, follow, read_again, look)]
    for each in threads:
        each.start()
    try:
        while not notes.memory and not notes.wrong:
            time.sleep(0.05)
        yield
    finally:
        for each in threads:
            each.join()


def publish(client: Client, notes: Notes, over: threading.Event) -> None:
    """Publish batches to each partition in turn, at a steady rate; `n` of an event is its offset."""
    began, number = time.monotonic(), 0
    while not over.is_set():
        over.wait(began + number / BATCHES_PER_SECOND - time.monotonic())
        partition, first = number % PARTITIONS, number // PARTITIONS * BATCH
        batch = [
            NewEvent.of(b'{"n":%d,"pad":"%s"}' % (first + each, PAD.encode()), partition=partition, key=f"key-{each}")
            for each in range(BATCH)
        ]
        sent = time.monotonic()
        client.publish(FEED, batch)
        notes.took.append((sent, time.monotonic() - sent))
        notes.published += BATCH
        number += 1


def follow(client: Client, notes: Notes, over: threading.Event) -> None:
    """Read the newest events, each once and in order."""
    feed, follower = client.feed(FEED), Following()
    cursors: Mapping[int, str] = feed.cursors()
    while not over.is_set():
        page = feed.read(cursors, wait_seconds=1)
        notes.wrong += follower.take(page.events)
        notes.followed += len(page.events)
        cursors = page.cursors


def read_again(client: Client, notes: Notes, over: threading.Event) -> None:
    """Read the whole history again and again, across files and database."""
    feed = client.feed(FEED)
    while not over.is_set():
        follower = Following()
        cursors: Mapping[int, str] = feed.cursors()
        try:
            while not over.is_set():
                page = feed.read(cursors, page_size_hint=5_000)
                notes.wrong += follower.take(page.events)
                notes.reread += len(page.events)
                cursors = page.cursors
                if len(page.events) < BATCH:
                    break
        except CursorExpired:
            notes.expired += 1
        over.wait(20)


class Following:
    """Checks that events come in order, each once."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def take(self, events: Iterable[Any]) -> list[str]:
        """Return what is wrong."""
        wrong = []
        for event in events:
            expected = self._next.get(event.partition, event.data["n"])
            if event.data["n"] != expected:
                wrong.append(f"partition {event.partition}: {event.data['n']} instead of {expected}")
            self._next[event.partition] = event.data["n"] + 1
        return wrong


def existing(tier: Path) -> Iterator[Path]:
    """Yield the files that are there and stay so for this moment."""
    for each in tier.rglob("*.parquet"):
        if each.exists():
            yield each


def resident(pid: int) -> int:
    """Return the bytes of memory that a process has."""
    fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096


def rows_of(kind: str, notes: Notes) -> Iterator[Row]:
    """Yield what it came to: the last quarter beside the one after the first."""
    for what, values in (("database", notes.space), ("files", notes.files), ("memory", notes.memory)):
        quarter = len(values) // 4
        late, early = max(values[-quarter:]), max(values[quarter : 2 * quarter] or values)
        yield Row(
            f"{kind}: {what}, the largest of the last quarter beside that of the second",
            f"{late / 1e6:.0f} MB",
            f"{early / 1e6:.0f} MB",
            late / early if early else 1.0,
            GROWTH,
        )
    took = [each for _, each in notes.took]
    half = len(took) // 2
    late, early = (quantiles(each, n=100)[98] * 1_000 for each in (took[half:], took[:half]))
    yield Row(
        f"{kind}: 99th percentile of a batch of {BATCH} in the second half, beside the first",
        f"{late:.1f} ms, median {median(took[half:]) * 1_000:.1f} ms",
        f"{early:.1f} ms",
        late / early,
    )
    read = f"{notes.followed:,} followed, {notes.reread:,} read again"
    what = f"{kind}: wrong among {notes.published:,} events published, {read}"
    yield Row(what, str(len(notes.wrong)), "", len(notes.wrong), LOST)
