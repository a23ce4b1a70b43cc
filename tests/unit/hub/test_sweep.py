import threading
from collections.abc import Iterator

import pytest

from penstock.errors import DatabaseUnavailable
from penstock.hub import sweep as sweeping
from penstock.hub.append import append_rows, lock_heads
from penstock.hub.sweep import Sweeper
from penstock.storage import Store
from penstock.storage.store import Frame
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_new_event
from tests.unit.hub.feeds import NAME, created, ready
from tests.unit.hub.forwarding import ForwardingStore

ROWS = 25


@pytest.fixture
def sweeper(forwarding: ForwardingStore) -> Iterator[Sweeper]:
    sweeper = Sweeper(forwarding)
    yield sweeper
    sweeper.stop()


@pytest.fixture
def dropped(store: Store) -> int:
    """A partition with events whose event type is gone."""
    feed = created(store)
    batch = ready(feed, *(a_new_event(partition=0) for _ in range(ROWS)))
    with store.write() as tx:
        append_rows(tx, [batch], lock_heads(tx, [batch]), START_AT)
    with store.write() as tx:
        tx.feeds.delete(NAME)
    return feed.partition_ids[0]


class Writes:
    """Says when a write begins, by its number, and how many rows of a partition there were then."""

    def __init__(self, store: Store, partition_id: int, failing: int = 0) -> None:
        self._store, self._partition_id, self._failing = store, partition_id, failing
        self.left: list[int] = []
        self._more = threading.Condition()

    def __call__(self, number: int) -> None:
        with self._store.read() as tx:
            left = tx.events.lines(self._partition_id, 0, ROWS, Frame("", "", ""), None).scanned
        with self._more:
            self.left.append(left)
            self._more.notify_all()
        if number <= self._failing:
            raise DatabaseUnavailable(reason="away", retry_after=1)

    def await_number(self, number: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: len(self.left) >= number, 60), f"only {len(self.left)} writes"


def test_what_a_killed_hub_has_left_is_removed_at_the_start(
    sweeper: Sweeper, forwarding: ForwardingStore, store: Store, dropped: int
) -> None:
    forwarding.at_write = writes = Writes(store, dropped)

    sweeper.start()
    writes.await_number(2)

    assert writes.left == [ROWS, 0]


def test_it_is_removed_little_by_little(
    sweeper: Sweeper, forwarding: ForwardingStore, store: Store, dropped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "SWEEP_ROWS", 10)
    forwarding.at_write = writes = Writes(store, dropped)

    sweeper.start()
    writes.await_number(4)

    assert writes.left[:4] == [25, 15, 5, 0]


def test_it_rests_until_it_is_asked(sweeper: Sweeper, forwarding: ForwardingStore, store: Store) -> None:
    forwarding.at_write = writes = Writes(store, 0)
    sweeper.start()
    writes.await_number(1)

    sweeper.sweep()

    writes.await_number(2)


def test_what_fails_is_tried_again_without_being_asked(
    sweeper: Sweeper, forwarding: ForwardingStore, store: Store, dropped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "RETRY_S", 0.01)
    forwarding.at_write = writes = Writes(store, dropped, failing=2)

    sweeper.start()
    writes.await_number(4)

    assert writes.left[:4] == [ROWS, ROWS, ROWS, 0]


def test_there_is_one_sweeper_however_often_it_is_started_and_none_afterwards(sweeper: Sweeper) -> None:
    before = _sweepers()
    for _ in range(3):
        sweeper.start()
    assert _sweepers() == before + 1

    sweeper.stop()

    assert _sweepers() == before


def test_one_that_was_never_started_can_be_stopped(sweeper: Sweeper) -> None:
    sweeper.stop()
    sweeper.stop()


def _sweepers() -> int:
    return sum(thread.name == "penstock-sweeper" for thread in threading.enumerate())
