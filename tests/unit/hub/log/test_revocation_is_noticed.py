"""A process of the hub notices within a second that another one has taken rights away, by the clock of its poller."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Final

import pytest

from penstock.core.access import Caller
from penstock.hub.admin.permissions import AccessPolicy
from penstock.hub.hub import Hub
from penstock.hub.log.watch import PollerTasks
from penstock.storage import Store, open_store

PROMISED: Final = 1.0
"""Seconds, by docs/guides/access.md. In real time come those in which the process does not get the processor, or the
database does not answer."""
PERIOD: Final = 2.37
"""Seconds between two revocations: each finds the poller at another place between two refreshes."""
TIMES: Final = 20


class SimulatedTime:
    """A clock that only `sleep` moves. It revokes a token every `PERIOD`, and notes when readers are woken.

    The poller alone sleeps by it, so that nothing passes between its steps.
    """

    def __init__(self, store: Store) -> None:
        other = Hub(store)
        self._tokens = other.admin.tokens
        self._ids = [self._tokens.create(Caller("service", f"reader-{n}")).token.id for n in range(TIMES)]
        self._now = 1000.0
        self._revoked_at: float | None = None
        self.delays: list[float] = []
        self.is_over = threading.Event()

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds
        if len(self.delays) == TIMES:
            self.is_over.set()
            self.is_over.wait(0.001)  # Leave the processor to the thread that stops the poller.
        elif self._revoked_at is None and self._now >= 1000 + PERIOD * (len(self.delays) + 1):
            self._tokens.revoke(self._ids[len(self.delays)])
            self._revoked_at = self._now

    def note_wake(self) -> None:
        """Note that readers are woken to check their rights again."""
        if self._revoked_at is not None:
            self.delays.append(self._now - self._revoked_at)
            self._revoked_at = None


@contextmanager
def reading(hub: Hub, time: SimulatedTime) -> Iterator[None]:
    """Have a reader of *hub* wait, and the poller run, which is all that tells it of other processes."""
    watch = hub.log.watch
    waiter = watch.wait({}, time.note_wake)
    watch.start(PollerTasks(hub.log.move, hub.admin.permissions.refresh))
    try:
        yield
    finally:
        watch.cancel(waiter)
        assert watch.stop(300)


def test_readers_check_their_rights_within_a_second_after_another_process_has_revoked_a_token(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [open_store(migrated_url) for _ in range(2)]
    stores[0].migrate()
    time = SimulatedTime(stores[1])
    simulated = SimpleNamespace(monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr("penstock.hub.log.watch.time", simulated)
    monkeypatch.setattr("penstock.storage.postgres.watcher.time", simulated)
    hub = Hub(stores[0])
    hub.admin.permissions.enforce(AccessPolicy())

    with reading(hub, time):
        assert time.is_over.wait(100)
    for store in stores:
        store.close()

    assert len(time.delays) == TIMES
    assert min(time.delays) >= 0
    assert max(time.delays) <= PROMISED
