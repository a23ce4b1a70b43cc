"""Readers that wait are woken by commits, of this process and of others."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import DatabaseUnavailable, EventTypeNotFound
from penstock.hub.log import watch as watching
from penstock.hub.log.publish import append_rows, lock_heads
from penstock.hub.log.watch import PollerTasks, Watch
from penstock.hub.subscriptions.consumer_stream import PartitionEnds
from penstock.storage import Store, open_store
from penstock.storage.store import Watcher
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_new_event
from tests.unit.hub.feeds import NAME, create_feed, find_feed, into_outbox, prepare_events
from tests.unit.hub.forwarding import ForwardingStore, fail
from tests.unit.hub.subscribing import P, Played, Q


class Waiter:
    """A reader that waits, and counts how often it was woken."""

    def __init__(self) -> None:
        self.count = 0
        self._woken = threading.Event()

    def __call__(self) -> None:
        self.count += 1
        self._woken.set()

    def await_wake(self) -> None:
        assert self._woken.wait(300), "nobody woke it"


class Moves:
    """The committer's part: notes which outboxes it is to move, and moves them when the test says so."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Future[None]]] = []
        self._more = threading.Condition()

    def __call__(self, name: str) -> Future[None]:
        moving: Future[None] = Future()
        with self._more:
            self.calls.append((name, moving))
            self._more.notify_all()
        return moving

    def await_call(self, number: int) -> tuple[str, Future[None]]:
        """Return the *number*th call, from 1."""
        with self._more:
            assert self._more.wait_for(lambda: len(self.calls) >= number, 300), f"only {self.calls}"
            return self.calls[number - 1]


class Unchanging:
    """A store in which nothing ever changes, and a signal when it was asked twenty times."""

    poll_interval, calm_poll_interval = 0.001, 0.002

    def __init__(self, store: Store) -> None:
        self._store = store
        self._times = 0
        self.twenty = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def watch(self) -> Watcher:
        return self

    def has_changed(self) -> bool:
        self._times += 1
        if self._times == 20:
            self.twenty.set()
        return False

    def close(self) -> None:
        pass


@pytest.fixture
def moves() -> Moves:
    return Moves()


@pytest.fixture
def watch(store: Store) -> Iterator[Watch]:
    watch = Watch(store)
    yield watch
    assert watch.stop(300)


@pytest.fixture
def other(store: Store) -> Iterator[Store]:
    """The same database, as another process has it."""
    other = open_store(store.url)
    yield other
    other.close()


def append(store: Store, name: str = NAME) -> None:
    batch = prepare_events(find_feed(store, name), a_new_event(partition=0))
    with store.write() as tx:
        append_rows(tx, [batch], lock_heads(tx, [batch]), START_AT)


# Commits of this process


def test_readers_are_woken_once_by_the_event_after_their_offset(watch: Watch) -> None:
    waiters = [Waiter() for _ in range(5)]
    for offset, waiter in enumerate(waiters):
        watch.wait({7: offset, 8: offset}, waiter)

    watch.notify_appended({7: 0, 9: 99})
    assert [waiter.count for waiter in waiters] == [0] * 5
    watch.notify_appended({7: 3, 8: 3})
    assert [waiter.count for waiter in waiters] == [1, 1, 1, 0, 0]


def test_commit_of_this_process_between_a_page_and_the_wait_wakes_its_reader_at_once(watch: Watch) -> None:
    """Without the poller, which does not run here."""
    behind, at_end, of_another_partition = Waiter(), Waiter(), Waiter()
    watch.notify_appended({1: 5})

    woken = watch.wait({1: 4, 2: 7}, behind)
    watch.wait({1: 5}, at_end)
    watch.wait({2: 7}, of_another_partition)

    assert (behind.count, at_end.count, of_another_partition.count) == (1, 0, 0)
    assert woken.found == {1: 5}


def test_ends_that_the_watch_remembers_are_bounded(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "ENDS_KEPT", 3)
    woken = Waiter()

    for partition_id in range(10):
        watch.notify_appended({partition_id: 5})
    watch.wait({9: 4}, woken)
    watch.wait({0: 4}, woken)

    assert woken.count == 1


def test_cancelled_reader_is_not_woken_and_the_others_are(watch: Watch) -> None:
    gone, stays = Waiter(), Waiter()
    ticket = watch.wait({7: 0, 8: 0}, gone)
    watch.wait({7: 0}, stays)
    assert watch.waiting == 2

    for _ in range(2):
        watch.cancel(ticket)
        assert watch.waiting == 1
    watch.notify_appended({7: 1, 8: 1})

    assert (gone.count, stays.count) == (0, 1)


def test_wake_all_wakes_every_reader_and_lets_it_wait_on(watch: Watch) -> None:
    waiters = [Waiter() for _ in range(3)]
    for places, waiter in zip(({7: 5, 8: 5}, {9: 5}, {}), waiters, strict=True):
        ticket = watch.wait(places, waiter)

    watch.wake_all()

    assert [waiter.count for waiter in waiters] == [1, 1, 1]
    assert (watch.waiting, watch.draining) == (3, False)
    watch.notify_appended({8: 6})
    assert [waiter.count for waiter in waiters] == [2, 1, 1]
    watch.cancel(ticket)
    assert watch.waiting == 2


def test_drain_wakes_every_reader_and_ends_later_waits_at_once(watch: Watch) -> None:
    before, after = Waiter(), Waiter()
    watch.wait({7: 5, 8: 5}, before)
    assert not watch.draining

    watch.drain()
    ticket = watch.wait({7: 5}, after)

    assert watch.draining
    assert (before.count, after.count, watch.waiting) == (1, 1, 1)
    watch.cancel(ticket)
    assert watch.waiting == 1


def test_reader_that_is_woken_at_once_may_call_the_watch(watch: Watch) -> None:
    watch.drain()
    woken = threading.Event()

    def wake() -> None:
        watch.notify_appended({7: 9})
        woken.set()

    threading.Thread(target=watch.wait, args=({7: 5}, wake), daemon=True).start()

    assert woken.wait(300), "it was woken under the lock that it needs"


# Commits of other processes, which the poller finds


def test_commit_of_another_process_wakes_readers_even_just_before_their_wait(
    watch: Watch, store: Store, other: Store, moves: Moves
) -> None:
    [partition_id] = create_feed(store).partition_ids
    first, second = Waiter(), Waiter()
    watch.start(PollerTasks(moves))
    watch.wait({partition_id: 0}, first)
    append(other)
    first.await_wake()  # The poller has looked, and has no other reason to look again.

    watch.wait({partition_id: 0}, second)

    second.await_wake()


def test_drop_of_an_event_type_by_another_process_wakes_its_readers_alone(
    watch: Watch, store: Store, other: Store, moves: Moves
) -> None:
    dropped, kept = create_feed(store), create_feed(store, "another.feed")
    waiter, another = Waiter(), Waiter()
    watch.start(PollerTasks(moves))
    watch.wait({dropped.partition_ids[0]: 0}, waiter)
    watch.wait({kept.partition_ids[0]: 0}, another)
    with other.write() as tx:
        tx.registry.delete(NAME)

    waiter.await_wake()

    assert another.count == 0


def test_outbox_is_moved_once_at_a_time_though_nobody_reads(
    watch: Watch, store: Store, other: Store, moves: Moves
) -> None:
    [partition_id] = create_feed(store).partition_ids
    watch.start(PollerTasks(moves))
    into_outbox(store, [(NAME, "{}")])
    name, moving = moves.await_call(1)
    assert name == NAME

    waiter = Waiter()
    watch.wait({partition_id: 0}, waiter)
    append(other)
    waiter.await_wake()  # The poller has looked again since.
    assert len(moves.calls) == 1

    moving.set_result(None)
    into_outbox(store, [("unheard.of", "{}")])
    assert "unheard.of" in {moves.await_call(each)[0] for each in (2, 3)}


def test_outbox_is_moved_again_after_a_failed_move_though_nothing_changes(
    watch: Watch, store: Store, moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "RETRY_INTERVAL_MAX", 0.01)
    watch.start(PollerTasks(moves))
    into_outbox(store, [(NAME, "{}")])

    for number in (1, 2):
        moves.await_call(number)[1].set_exception(DatabaseUnavailable(reason="away", retry_after=1))

    assert moves.await_call(3)[0] == NAME


def test_poller_survives_an_outage(store: Store, other: Store, moves: Moves) -> None:
    times = []

    def watch_or_fail() -> Watcher:
        times.append(1)
        if len(times) <= 3:
            fail()
        return store.watch()

    away: Any = ForwardingStore(store)
    away.watch = watch_or_fail
    [partition_id] = create_feed(store).partition_ids
    waiter, watch = Waiter(), Watch(away)
    watch.start(PollerTasks(moves))
    watch.wait({partition_id: 0}, waiter)
    append(other)

    waiter.await_wake()

    assert len(times) == 4
    assert watch.stop(300)


@pytest.mark.parametrize("soon", [0.0, 60.0], ids=["after a change", "after a while"])
@pytest.mark.parametrize("fails", [False, True], ids=["looking", "failing once"])
def test_settings_are_refreshed(
    store: Store, other: Store, moves: Moves, monkeypatch: pytest.MonkeyPatch, *, soon: float, fails: bool
) -> None:
    monkeypatch.setattr(watching, "REFRESH_INTERVAL", soon)
    monkeypatch.setattr(watching, "REFRESH_INTERVAL_MAX", 60.0 - soon)
    create_feed(store)
    refreshed, failures = threading.Semaphore(0), iter([fails])

    def refresh() -> None:
        if next(failures, False):
            raise ZeroDivisionError
        refreshed.release()

    watch = Watch(store)
    watch.start(PollerTasks(moves, refresh))
    assert refreshed.acquire(timeout=300), "the first look finds everything changed"

    append(other)

    assert refreshed.acquire(timeout=300)
    assert watch.stop(300)


def test_settings_are_not_refreshed_while_nothing_changes(
    store: Store, moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "REFRESH_INTERVAL", 0.0)
    monkeypatch.setattr(watching, "IDLE_INTERVAL", 0.001)
    refreshed: list[None] = []
    asked = Unchanging(store)
    watch = Watch(asked)
    watch.start(PollerTasks(moves, lambda: refreshed.append(None)))
    assert asked.twenty.wait(300)
    assert watch.stop(300)

    assert refreshed == []


def test_poller_slows_down_while_nothing_changes(store: Store, moves: Moves, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(0.0001)

    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    monkeypatch.setattr(watching, "CALM_SECONDS", 0.0)
    asked = Unchanging(store)
    watch = Watch(asked)
    watch.wait({7: 0}, Waiter())
    watch.start(PollerTasks(moves))
    assert asked.twenty.wait(300)
    assert watch.stop(300)

    assert set(pauses[1:]) == {asked.calm_poll_interval}


# The ends of a stream's partitions


@pytest.fixture
def hub(forwarding: ForwardingStore) -> Iterator[Played]:
    played = Played(forwarding)
    create_feed(forwarding, partition_count=2)
    yield played
    played.stop()


@pytest.fixture
def waiter() -> Waiter:
    return Waiter()


@pytest.fixture
def ends(hub: Played, waiter: Waiter) -> Iterator[PartitionEnds]:
    ends = PartitionEnds(hub.store, hub.hub.log.watch, waiter)
    yield ends
    ends.cancel()


def test_partition_ends_load_all_partitions_of_an_event_type(hub: Played, ends: PartitionEnds) -> None:
    hub.publish(1, 2)

    assert ends.load([]) == {}
    assert {place: head.next_offset for place, head in ends.load([Q]).items()} == {P: 2, Q: 0}
    assert ends.feed(NAME).name == NAME
    with pytest.raises(EventTypeNotFound):
        ends.load([("none", 0)])


def test_stream_is_woken_once_for_its_own_partitions(hub: Played, ends: PartitionEnds, waiter: Waiter) -> None:
    ends.load([P])
    ends.add(P, 0)
    ends.wait()
    hub.publish(1, partition=1)
    assert waiter.count == 0
    hub.publish(1, 2)
    assert waiter.count == 1
    assert hub.hub.log.watch.notify_appended({ends.feed(NAME).partition_ids[0]: 2}) == 0, (
        "the poller finds it once more"
    )
    assert (waiter.count, ends.end(P)) == (1, 0)
    ends.refresh()
    assert (ends.end(P), ends.end(Q)) == (2, 0)
    ends.add(P, 7)
    ends.refresh()
    assert ends.end(P) == 7, "it never goes back"

    ends.remove(P)
    ends.add(Q, 1)
    ends.wait()
    hub.publish(3)
    assert waiter.count == 1
    hub.publish(2, partition=1)
    ends.refresh()
    assert (ends.end(P), ends.end(Q), waiter.count) == (0, 2, 2)

    ends.cancel()
    hub.publish(4)
    hub.publish(5, partition=1)
    assert waiter.count == 2
