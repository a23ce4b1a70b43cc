"""The sweeper removes the events of dropped event types in the background, a few at a time."""

import threading
from collections.abc import Iterator

import pytest

from penstock.hub.admin import sweeping
from penstock.hub.admin.sweeping import Sweeper
from penstock.storage import Store
from penstock.storage.log.events import Frame
from tests.unit.hub.feeds import NAME, create_feed
from tests.unit.hub.forwarding import ForwardingStore, fail
from tests.unit.hub.numbering import a_publish, settle

ROWS = 25


class Writes:
    """Notes before each write how many rows of a partition are left, and lets the first ones fail."""

    def __init__(self, store: Store, partition_id: int) -> None:
        self._store, self._partition_id = store, partition_id
        self.failing = 0
        self.left: list[int] = []
        self._more = threading.Condition()

    def __call__(self, number: int) -> None:
        with self._store.read() as tx:
            left = tx.log.read_lines(self._partition_id, 0, ROWS, Frame("", "", ""), None).scanned
        with self._more:
            self.left.append(left)
            self._more.notify_all()
        if number <= self.failing:
            fail()

    def await_number(self, number: int) -> list[int]:
        with self._more:
            assert self._more.wait_for(lambda: len(self.left) >= number, 300), f"only {len(self.left)} writes"
            return self.left[:number]


@pytest.fixture
def writes(forwarding: ForwardingStore, store: Store) -> Writes:
    """The next writes, and a partition with events of an event type that was dropped."""
    feed = create_feed(store)
    settle(store, a_publish(feed, "a" * ROWS))
    with store.write() as tx:
        tx.registry.delete(NAME)
    writes = forwarding.at_write = Writes(store, feed.partition_ids[0])
    return writes


@pytest.fixture
def sweeper(forwarding: ForwardingStore) -> Iterator[Sweeper]:
    sweeper = Sweeper(forwarding)
    yield sweeper
    assert sweeper.stop(300)


def test_events_left_by_a_killed_hub_are_removed_at_the_start_and_later_ones_on_demand(
    sweeper: Sweeper, writes: Writes
) -> None:
    sweeper.start()
    assert writes.await_number(2) == [ROWS, 0]

    sweeper.sweep()

    writes.await_number(3)


def test_events_are_removed_a_few_at_a_time(
    forwarding: ForwardingStore, writes: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "DELETE_ROWS", (10, 10))
    sweeper = Sweeper(forwarding)

    sweeper.start()

    assert writes.await_number(4) == [25, 15, 5, 0]
    assert sweeper.stop(300)


def test_failed_sweep_is_repeated_without_demand(
    sweeper: Sweeper, writes: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "RETRY_INTERVAL", 0.01)
    writes.failing = 2

    sweeper.start()

    assert writes.await_number(4) == [ROWS, ROWS, ROWS, 0]


def test_sweeper_that_was_not_started_stops(sweeper: Sweeper) -> None:
    assert sweeper.stop()
    assert sweeper.stop()
