"""Long calls in transactions of SQLite, which block the renewal of leases, lose no lease."""

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.core.groups.leases import GroupLeases
from penstock.processing import DatabaseCheckpoints, LocalProcessor, Transactional
from penstock.processing.checkpoints import DatabaseLeases
from penstock.processing.checkpoints.database import TABLE
from penstock.processing.database import Database, connector, transaction
from penstock.processing.sources import MemorySource
from penstock.processing.together import Span
from tests.processing.office import SOON_SECONDS, until

LEASE_SECONDS = 0.4
LONG_SECONDS = LEASE_SECONDS * 1.5


class Work:
    """A table of handled events, and the calls of its handlers."""

    def __init__(self, file: Path) -> None:
        self.url = f"sqlite:///{file}"
        self.calls: list[tuple[str, list[str]]] = []
        self.lasts_seconds = 0.0
        self.two_at_once: list[str] = []
        self.waiting, self.may_begin = threading.Event(), threading.Event()
        self.may_begin.set()
        self._active: Counter[str] = Counter()
        with transaction(connector(self.url)) as connection:
            connection.execute("CREATE TABLE handled (stream TEXT, number INTEGER)")

    def local(self, source: MemorySource, name: str, lease_seconds: float = LEASE_SECONDS) -> LocalProcessor:
        """Return a processor that shares the work."""

        def write(connection: Any, spans: Sequence[Span]) -> None:
            streams = [span.stream for span in spans]
            self.calls.append((name, streams))
            self._active.update(streams)
            self.two_at_once += [stream for stream in streams if self._active[stream] > 1]
            time.sleep(self.lasts_seconds)
            rows = [(event.stream, event.data) for span in spans for event in span.events]
            connection.executemany("INSERT INTO handled VALUES (?, ?)", rows)
            self._active.subtract(streams)

        leases = DatabaseLeases(self.url, "shared", lease_seconds=lease_seconds)
        handler = Transactional(self._connect, write, DatabaseCheckpoints(self.url, "shared"))
        return LocalProcessor(handler, source, leases=leases, stats_interval=None)

    def handled(self) -> list[tuple[str, int]]:
        """Return what is committed, in its order."""
        with transaction(connector(self.url)) as connection:
            return list(connection.execute("SELECT stream, number FROM handled ORDER BY rowid"))

    def _connect(self) -> sqlite3.Connection:
        if threading.current_thread().name == "penstock-handler":
            self.waiting.set()
            assert self.may_begin.wait(SOON_SECONDS)
        connection: sqlite3.Connection = connector(self.url)()
        return connection


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path / "shared.db")


def test_call_that_outlasts_the_lease_is_made_once_and_committed(work: Work) -> None:
    source, work.lasts_seconds = MemorySource(), LONG_SECONDS
    source.append("S", [0, 1])
    with work.local(source, "a") as processor:
        processor.wait_until_caught_up(SOON_SECONDS)
        source.append("S", [2])
        processor.wait_until_caught_up(SOON_SECONDS)
    assert work.calls == [("a", ["S"]), ("a", ["S"])]
    assert work.handled() == [("S", 0), ("S", 1), ("S", 2)]


def test_processors_that_share_long_calls_handle_each_event_once(work: Work) -> None:
    tranches = ("0", "1", "2", "3")
    sources, work.lasts_seconds = [MemorySource(*tranches) for _ in range(2)], LONG_SECONDS
    for source in sources:
        for tranche in tranches:
            source.append(f"S{tranche}", range(2), tranche=tranche)
    a, b = (work.local(source, name) for source, name in zip(sources, "ab", strict=True))
    a.start()
    b.start()
    until(lambda: len(work.handled()) == 8)
    for source in sources:
        for tranche in tranches:
            source.append(f"S{tranche}", range(2, 4), tranche=tranche)
    until(lambda: len(work.handled()) >= 16)
    a.stop()
    b.stop()
    assert not work.two_at_once
    for tranche in tranches:
        assert [n for stream, n in work.handled() if stream == f"S{tranche}"] == [0, 1, 2, 3]


def test_call_is_not_made_for_a_tranche_taken_while_it_waited_for_the_database(work: Work) -> None:
    source, other = MemorySource(), DatabaseLeases(work.url, "shared")
    with work.local(source, "a") as processor:
        processor.wait_until_caught_up(SOON_SECONDS)
        work.may_begin.clear()
        source.append("S", [0])
        assert work.waiting.wait(SOON_SECONDS)
        with transaction(connector(work.url)) as connection:
            work.may_begin.set()
            plan = other._plan(lambda _, now: GroupLeases({other.owner: now + 60_000_000}, {"0": (other.owner, None)}))
            Database(connection, TABLE).carry_out(plan)
        until(lambda: not processor._progress._open, processor)
        assert not work.calls
        other.leave()
        until(work.handled, processor)
    assert work.calls == [("a", ["S"])]
    assert work.handled() == [("S", 0)]
