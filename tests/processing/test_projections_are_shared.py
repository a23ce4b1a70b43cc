"""A projection that several processors share by leases is the fold of its log."""

import sqlite3
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.processing import LocalProcessor, Projection, Rules, StreamEvent
from penstock.processing.checkpoints import DatabaseLeases
from penstock.processing.database import Connect, connector, transaction
from penstock.processing.sources import MemorySource
from tests.exhaustive import exhaustive
from tests.processing.office import until

TRANCHES = ("0", "1", "2", "3")
KEYS = 12


@dataclass
class Seen:
    numbers: list[int] = field(default_factory=list)


def add(seen: Seen, event: StreamEvent) -> Seen:
    seen.numbers.append(event.data)
    return seen


def by_stream(event: StreamEvent) -> str:
    return event.stream


def all_in_one(event: StreamEvent) -> str:
    return "all"


class Leaseholder:
    """Processors of one projection, which all read the same log, and their failures."""

    def __init__(self, projection: Projection[Seen], database: Connect) -> None:
        self.failures: list[Exception] = []
        self._projection = projection
        self._database = database
        self._sources: list[MemorySource] = []
        self._running: list[LocalProcessor] = []
        self._log: list[int] = []

    def join(self) -> None:
        """Have one more take part, and wait until each has its share."""
        source = MemorySource(*TRANCHES)
        for n in self._log:
            _append(source, n)
        leases = DatabaseLeases(self._database, self._projection.processor, lease_seconds=4.0)
        rules = Rules(events_per_call=3)
        options: dict[str, Any] = {"leases": leases, "rules": rules, "classify": self._failed, "commit_interval": 0.05}
        self._sources.append(source)
        self._running.append(self._projection.local(source, self._database, **options).start())
        self._await_shares()

    def leave(self) -> None:
        """Have the one that came last go, and wait until the others have what it had."""
        self._sources.pop()
        self._running.pop().stop()
        self._await_shares()

    def append(self, count: int) -> None:
        """Have so many numbers more, and wait until each is folded."""
        more = range(len(self._log), len(self._log) + count)
        self._log += more
        for source in self._sources:
            for n in more:
                _append(source, n)
        for each in self._running:
            each.wait_until_caught_up(300)

    def stop(self) -> None:
        """Have all go."""
        while self._running:
            self._running.pop().stop()

    def wanted(self) -> dict[str, list[int]]:
        """Return the numbers of each stream, in order."""
        return {f"S{key}": self._log[key::KEYS] for key in range(KEYS)}

    def _await_shares(self) -> None:
        def shares() -> set[int]:
            return {len(each._progress._open - each._progress.closing) for each in self._running}

        until(lambda: shares() == {len(TRANCHES) // len(self._running)})

    def _failed(self, error: Exception) -> str:
        self.failures.append(error)
        return "failed"


def _append(source: MemorySource, n: int) -> None:
    source.append(f"S{n % KEYS}", [n], tranche=TRANCHES[n % KEYS % len(TRANCHES)])


@pytest.fixture(params=["sqlite", "sqlite, begun to read", "postgres", "postgres, that repeats reads"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Connect:
    """Opens a database: by its URL, or so that two can read the same row before either writes."""
    kind, _, way = request.param.partition(", ")
    if kind == "sqlite":
        return connector(f"sqlite:///{tmp_path}/app.db") if not way else lambda: _begun(tmp_path / "app.db")
    url = request.getfixturevalue("postgres_url")
    return connector(url) if not way else lambda: _repeating(url)


def _begun(file: Path) -> sqlite3.Connection:
    """Return a connection as it is with `autocommit=False`, from Python 3.12 on."""
    connection = sqlite3.connect(file, timeout=300, isolation_level=None)
    connection.execute("BEGIN")
    return connection


def _repeating(url: str) -> Any:
    connection = psycopg.connect(url, autocommit=True)
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    return connection


def read_rows(projection: Projection[Seen], database: Connect) -> dict[str, list[int]]:
    with transaction(database) as connection:
        return {key: row.state.numbers for (key,), row in projection.table.list_all(connection).items()}


@pytest.mark.parametrize(
    "database",
    ["sqlite", "postgres", *map(exhaustive, ("sqlite, begun to read", "postgres, that repeats reads"))],
    indirect=True,
)
def test_rows_are_the_fold_of_the_log_after_tranches_change_hands(database: Connect) -> None:
    projection = Projection("seen", Seen, add, key=by_stream)
    sharing = Leaseholder(projection, database)
    sharing.join()
    sharing.append(60)
    sharing.join()
    sharing.append(60)
    sharing.leave()
    sharing.append(60)
    sharing.stop()
    assert read_rows(projection, database) == sharing.wanted()
    assert sharing.failures == []


def test_row_folded_by_two_processors_at_once_has_each_event_once(database: Connect) -> None:
    both = threading.Barrier(2)

    def added_by_two(seen: Seen, event: StreamEvent) -> Seen:
        with suppress(threading.BrokenBarrierError):  # Each has read the row by now, or the other waits for this one.
            both.wait(0.5)
        return add(seen, event)

    projection = Projection("seen", Seen, added_by_two, key=all_in_one)
    sharing = Leaseholder(projection, database)
    sharing.join()
    sharing.join()
    sharing.append(60)
    sharing.append(60)
    sharing.stop()
    assert sorted(read_rows(projection, database)["all"]) == list(range(120))
    assert sharing.failures == []
