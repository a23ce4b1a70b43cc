"""A measurement is whole or lacks what took too long, and never lasts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.errors import DatabaseUnavailable, Unavailable
from penstock.hub.admin import measuring
from penstock.hub.admin.measuring import MEASURE_TIMEOUT, DatabaseMonitor
from penstock.storage import Store
from penstock.storage.store import Tx
from tests.unit.hub.forwarding import ForwardingStore, fail


class SlowStore(ForwardingStore):
    """Each read takes *seconds*; one that takes longer than it may is ended."""

    def __init__(self, store: Store, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(store)
        self._seconds = seconds
        self._now = 0.0
        self.timeouts: list[float] = []
        monkeypatch.setattr(measuring.time, "monotonic", lambda: self._now)

    @contextmanager
    def read(self, *, timeout: float | None = None) -> Iterator[Tx]:
        assert timeout is not None
        self.timeouts.append(timeout)
        self._now += min(timeout, self._seconds)
        if self._seconds > timeout:
            raise Unavailable(reason="it took too long", retry_after=1)
        with super().read() as tx:
            yield tx

    def measure_space(self, **_: Any) -> None:
        """It has none."""


def test_measurement_of_an_empty_store_has_all_parts(store: Store) -> None:
    found = DatabaseMonitor(store, lambda: 7).measure()

    assert (found.at, *found[2:7]) == (7, ([], 0), ([], 0), ([], 0), 0, 0)
    assert found.space is not None
    assert found.space.used > 0
    assert found.space.free is None or 0 < found.space.free <= (found.space.size or 0)


def test_parts_share_the_time_and_those_that_come_too_late_are_missing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowStore(store, 2.0, monkeypatch)
    found = DatabaseMonitor(slow, lambda: 7).measure()

    assert found[2:7] == (([], 0), ([], 0), None, None, None)
    assert found.seconds == pytest.approx(MEASURE_TIMEOUT, abs=0.01)
    assert slow.timeouts == [5, 3, 1, 0.001, 0.001, 0.001, 0.001]


def test_database_that_is_away_ends_the_measurement(store: Store) -> None:
    away = ForwardingStore(store)
    away.at_read = fail
    with pytest.raises(DatabaseUnavailable):
        DatabaseMonitor(away, lambda: 7).measure()
    assert away.reads == 1
