import threading
from collections.abc import Callable, Iterator

import pytest

from penstock.errors import DatabaseUnavailable
from penstock.hub import sweep as sweeping
from penstock.hub.append import append_rows, lock_heads
from penstock.hub.expiry import Expiry
from penstock.hub.sweep import Sweeper
from penstock.storage import Store
from penstock.storage.producers import Producer
from penstock.storage.store import Frame
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.factories import a_new_event
from penstock.testing.store_contract import database_at
from tests.unit.hub.feeds import NAME, created, ready
from tests.unit.hub.forwarding import ForwardingStore
from tests.unit.hub.numbering import change, expire, known, numbered, settle

ROWS = 25
IDLE_S, FLOOR_S = 100, 1000


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


class TestProducers:
    @pytest.fixture
    def sweeper(self, forwarding: ForwardingStore, clock: VirtualClock) -> Iterator[Sweeper]:
        sweeper = Sweeper(forwarding, clock, Expiry(IDLE_S, FLOOR_S))
        yield sweeper
        sweeper.stop()

    def test_one_of_which_nothing_was_heard_expires_and_is_forgotten_when_its_time_is_over(
        self, sweeper: Sweeper, forwarding: ForwardingStore, store: Store, clock: VirtualClock
    ) -> None:
        feed = created(store)
        settle(store, numbered(feed, 7, 0, "a", group="old"), at=START_AT - 1)
        settle(store, numbered(feed, 7, 0, "a", group="pinned"), at=START_AT - 1)
        settle(store, numbered(feed, 7, 0, "a"))
        change(store, feed, "pinned", is_pinned=True)
        before = [known(store, feed, group) for group in ("g", "pinned")]

        clock.advance(seconds=IDLE_S)
        swept(sweeper, forwarding)

        old = known(store, feed, "old")
        assert old is not None
        assert (old.state.epoch, old.state.is_expired, old.state.last_offset) == (7, True, None)
        assert (old.updated_at, batches(store, old)) == (START_AT + IDLE_S * 1_000_000, 0)
        assert [known(store, feed, group) for group in ("g", "pinned")] == before

        clock.advance(seconds=FLOOR_S)
        swept(sweeper, forwarding)
        new = known(store, feed)
        assert new is not None
        assert new.state.is_expired
        assert known(store, feed, "old") == old

        clock.advance(microseconds=1)
        swept(sweeper, forwarding)
        assert [known(store, feed, group) for group in ("old", "g", "pinned")] == [None, new, before[1]]

    def test_one_that_is_heard_of_while_it_was_looked_for_stays(
        self, sweeper: Sweeper, forwarding: ForwardingStore, store: Store, clock: VirtualClock
    ) -> None:
        feed = created(store)
        for group in "abcd":
            settle(store, numbered(feed, 0, 0, "a", group=group))
        clock.advance(seconds=IDLE_S, microseconds=1)
        meanwhile = iter([True])

        def be_heard_of() -> None:
            if next(meanwhile, False):
                settle(store, numbered(feed, 0, 1, "b", group="a"), at=clock())
                change(store, feed, "b", is_pinned=True)
                expire(store, feed, "c")

        swept(sweeper, forwarding, be_heard_of)

        states = [producer and producer.state.is_expired for producer in (known(store, feed, each) for each in "abcd")]
        assert states == [False, False, True, True]
        assert (c := known(store, feed, "c")) and c.updated_at == START_AT, "that it expired is not put off"

    def test_they_expire_little_by_little_and_then_their_batches_go(
        self, sweeper: Sweeper, forwarding: ForwardingStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sweeping, "SWEEP_PRODUCERS", 2)
        monkeypatch.setattr(sweeping, "SWEEP_ROWS", 2)
        feed = created(forwarding)
        for group in "abcde":
            settle(forwarding, numbered(feed, 0, 0, "a", group=group))
        clock.advance(seconds=IDLE_S, microseconds=1)
        left: list[list[int]] = []

        swept(
            sweeper, forwarding, lambda: left.append(counted(forwarding, "producer WHERE NOT is_expired", "produced"))
        )

        assert left[:7] == [[5, 5], [3, 5], [1, 5], [0, 5], [0, 3], [0, 1], [0, 0]]

    def test_batches_whose_events_are_gone_go_but_for_the_newest(
        self, sweeper: Sweeper, forwarding: ForwardingStore, store: Store
    ) -> None:
        feed = created(store)
        for number in range(20):
            settle(store, numbered(feed, 0, number, "a"))
        database_at(store.url).run("UPDATE penstock_partition SET floor = 20")

        swept(sweeper, forwarding)

        producer = known(store, feed)
        assert producer is not None
        assert (producer.state.next, batches(store, producer)) == (20, 16)

    def test_what_belongs_to_a_dropped_event_type_goes_with_it(
        self, sweeper: Sweeper, forwarding: ForwardingStore, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sweeping, "SWEEP_ROWS", 2)
        feed = created(store, partition_count=2)
        for partition in (0, 1):
            for group in "abc":
                settle(store, numbered(feed, 0, 0, "a", group=group, partition=partition))
        change(store, feed, "b", is_pinned=True)
        with store.write() as tx:
            tx.feeds.delete(NAME)

        swept(sweeper, forwarding)

        assert counted(store, "produced", "producer", "event", "partition") == [0, 0, 0, 0]


def swept(sweeper: Sweeper, forwarding: ForwardingStore, at_write: Callable[[], None] = lambda: None) -> None:
    """Have everything swept that there is; the test has its say before each write."""
    last = created(forwarding, "last").partition_ids[0]
    with forwarding.write() as tx:
        tx.feeds.delete("last")
    rests, remove_some = threading.Event(), sweeper._remove_some

    def remove() -> bool:
        more = remove_some()
        if not more and counted(forwarding, f"partition WHERE id = {last}") == [0]:
            rests.set()
        return more

    forwarding.at_write = lambda _number: at_write()
    sweeper._remove_some = remove  # type: ignore[method-assign]
    sweeper.start()
    sweeper.sweep()
    assert rests.wait(300), "the sweeper does not come to an end"
    sweeper._remove_some = remove_some  # type: ignore[method-assign]


def counted(store: Store, *tables: str) -> list[int]:
    return [database_at(store.url).run(f"SELECT count(*) FROM penstock_{table}")[0][0] for table in tables]


def batches(store: Store, producer: Producer) -> int:
    return counted(store, f"produced WHERE producer_id = {producer.id}")[0]


def _sweepers() -> int:
    return sum(thread.name == "penstock-sweeper" for thread in threading.enumerate())
