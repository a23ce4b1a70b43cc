"""When everything counts as changed, by the place where the write-ahead log goes on and by the clock."""

from collections.abc import Callable

import pytest

from penstock.storage.postgres import watcher as watching
from penstock.storage.postgres.watcher import (
    LATE_SECONDS,
    OFTEN_INTERVAL,
    SELDOM_INTERVAL,
    WHILE_SECONDS,
    PostgresWatcher,
)

Ask = Callable[[float], bool]


class Quiet(PostgresWatcher):
    """A watcher of a log that stands where the test has put it."""

    def __init__(self) -> None:
        self.place = b"0/1"
        self._seen = None
        self._moved_at = self._told_at = -LATE_SECONDS

    def _where(self) -> bytes | None:
        return self.place


@pytest.fixture
def watcher() -> Quiet:
    return Quiet()


@pytest.fixture
def ask(watcher: Quiet, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Ask whether something has changed, at a moment by the clock."""

    def ask(now: float) -> bool:
        monkeypatch.setattr(watching.time, "monotonic", lambda: now)
        return watcher.has_changed()

    return ask


def test_watcher_reports_changes_for_a_while_after_a_write(watcher: Quiet, ask: Ask) -> None:
    assert ask(100.0)
    assert ask(100.0 + WHILE_SECONDS / 2)
    watcher.place = b"0/2"
    assert ask(200.0)
    assert ask(200.0 + WHILE_SECONDS * 0.9)
    assert not ask(200.0 + WHILE_SECONDS * 1.1)


def test_watcher_reports_changes_often_after_a_write_for_late_commits(ask: Ask) -> None:
    ask(100.0)
    told = [second for second in range(1, int(LATE_SECONDS)) if ask(100.0 + second)]

    assert told == list(range(1, int(LATE_SECONDS), int(OFTEN_INTERVAL)))


def test_watcher_reports_changes_seldom_after_a_long_quiet_time(ask: Ask) -> None:
    for second in range(int(LATE_SECONDS) + 1):
        ask(100.0 + second)
    told = [tenth / 10 for tenth in range(1, 200) if ask(100.0 + LATE_SECONDS + tenth / 10)]

    assert len(told) == pytest.approx(20 / SELDOM_INTERVAL, abs=1)
