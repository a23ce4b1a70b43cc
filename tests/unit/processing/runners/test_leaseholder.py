"""A processor whose leases are in a database that is unavailable or has lost its tables."""

import sqlite3
import time
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import pytest

from penstock.core.groups.leases import MemberTranches
from penstock.errors import DatabaseUnavailable, DatabaseUnsuitable
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.checkpoints.leases import DatabaseLeases
from penstock.processing.runners.leaseholder import PAUSE_SECONDS
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.sources.memory import MemorySource
from tests.failing import has_code

SOON_SECONDS = 300.0


class Away(DatabaseLeases):
    """Leases in a database that is away the first times."""

    def __init__(self, url: str, times: int) -> None:
        super().__init__(url, "mailer")
        self.times = times
        self.asked: list[float] = []

    def renew(self, tranches: Collection[str]) -> MemberTranches:
        self.asked.append(time.monotonic())
        if len(self.asked) <= self.times:
            raise DatabaseUnavailable(reason="it is away")
        return super().renew(tranches)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/app.db"


def test_unavailable_database_is_asked_at_intervals(url: str) -> None:
    source, leases, seen = MemorySource(), Away(url, times=2), list[str]()
    source.append("S", ["it came"])
    checkpoints = DatabaseCheckpoints(url, "mailer")
    with LocalProcessor(
        lambda _, events: seen.extend(e.data for e in events), source, checkpoints=checkpoints, leases=leases
    ):
        deadline = time.monotonic() + SOON_SECONDS
        while not seen and time.monotonic() < deadline:
            time.sleep(0.01)

    assert seen == ["it came"]
    first, second, third, *_ = leases.asked
    assert min(second - first, third - second) > PAUSE_SECONDS * 0.9


@pytest.mark.parametrize("table", ["penstock_checkpoints", "penstock_checkpoints_leases"])
def test_processor_without_its_tables_ends_and_says_so(url: str, table: str) -> None:
    source, leases = MemorySource(), DatabaseLeases(url, "mailer", lease_seconds=1.0)
    processor = LocalProcessor(
        print, source, checkpoints=DatabaseCheckpoints(url, "mailer"), leases=leases, commit_interval=0.01
    )
    processor.start()
    source.append("S", [0])
    processor.wait_until_caught_up(SOON_SECONDS)
    with closing(sqlite3.connect(Path(url.removeprefix("sqlite:///")), timeout=SOON_SECONDS)) as connection:
        connection.execute(f"DROP TABLE {table}")
        connection.commit()
    source.append("S", [1])

    assert processor.wait(SOON_SECONDS)
    with pytest.raises(DatabaseUnsuitable, check=has_code("table-gone"), match=f"no such table: {table}"):
        processor.stop()
