import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from penstock.errors import DatabaseUnavailable
from penstock.hub import watch as watching
from penstock.hub.append import append_rows, lock_heads
from penstock.hub.watch import Watch
from penstock.storage import Store, open_store
from penstock.storage.store import Watcher
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_new_event
from tests.unit.hub.feeds import NAME, created, found, into_outbox, ready


class Waiter:
    """One who waits, and counts how often it was woken."""

    def __init__(self) -> None:
        self.count = 0
        self._woken = threading.Event()

    def __call__(self) -> None:
        self.count += 1
        self._woken.set()

    def await_wake(self) -> None:
        assert self._woken.wait(300), "nobody woke it"


class Moves:
    """The committer's part: notes what it is to move, and does it when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Future[None]]] = []
        self._more = threading.Condition()

    def __call__(self, name: str) -> Future[None]:
        moving: Future[None] = Future()
        with self._more:
            self.asked.append((name, moving))
            self._more.notify_all()
        return moving

    def await_number(self, number: int) -> tuple[str, Future[None]]:
        """Return what was asked for as the *number*th, from 1."""
        with self._more:
            assert self._more.wait_for(lambda: len(self.asked) >= number, 60), f"asked for {self.asked} alone"
            return self.asked[number - 1]


class Asked:
    """A store in which nothing ever changes, and how often it was asked."""

    poll_s, calm_poll_s = 0.001, 0.050

    def __init__(self, store: Store) -> None:
        self._store = store
        self.times = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def watch(self) -> Watcher:
        return self

    def changed(self) -> bool:
        self.times += 1
        return False

    def close(self) -> None:
        pass


@pytest.fixture
def moves() -> Moves:
    return Moves()


@pytest.fixture
def watch(store: Store, moves: Moves) -> Iterator[Watch]:
    watch = Watch(store, moves)
    yield watch
    watch.stop()


@pytest.fixture
def other(store: Store) -> Iterator[Store]:
    """The same database, as another process has it."""
    other = open_store(store.url)
    yield other
    other.close()


def append(store: Store, name: str = NAME) -> None:
    batch = ready(found(store, name), a_new_event(partition=0))
    with store.write() as tx:
        append_rows(tx, [batch], lock_heads(tx, [batch]), START_AT)


class TestTickets:
    def test_the_event_that_is_waited_for_wakes_and_those_before_it_do_not(self, watch: Watch) -> None:
        waiter = Waiter()
        watch.wait({7: 5}, waiter)

        watch.appended({7: 5, 8: 99})
        assert waiter.count == 0
        watch.appended({7: 6})
        assert waiter.count == 1

    def test_who_waits_in_several_partitions_is_woken_once_for_all(self, watch: Watch) -> None:
        waiter = Waiter()
        watch.wait({7: 5, 8: 5, 9: 5}, waiter)

        watch.appended({7: 6, 8: 6, 9: 5})

        assert waiter.count == 1

    def test_all_who_wait_at_one_place_are_woken(self, watch: Watch) -> None:
        waiters = [Waiter() for _ in range(5)]
        for offset, waiter in enumerate(waiters):
            watch.wait({7: offset}, waiter)

        watch.appended({7: 3})

        assert [waiter.count for waiter in waiters] == [1, 1, 1, 0, 0]

    def test_who_has_gone_is_not_woken_and_takes_nobody_along(self, watch: Watch) -> None:
        gone, stays = Waiter(), Waiter()
        ticket = watch.wait({7: 0, 8: 0}, gone)
        watch.wait({7: 0}, stays)
        assert watch.waiting == 2

        for _ in range(2):
            watch.cancel(ticket)
            assert watch.waiting == 1
        watch.appended({7: 1, 8: 1})

        assert (gone.count, stays.count) == (0, 1)

    def test_everybody_can_be_woken_without_anything_new_and_wait_on(self, watch: Watch) -> None:
        waiters = [Waiter(), Waiter()]
        watch.wait({7: 5, 8: 5}, waiters[0])
        watch.wait({9: 5}, waiters[1])

        watch.wake_all()

        assert [waiter.count for waiter in waiters] == [1, 1]
        assert (watch.waiting, watch.draining) == (2, False)
        watch.appended({8: 6})
        assert [waiter.count for waiter in waiters] == [2, 1]

    def test_a_drain_wakes_everybody_and_lets_nobody_wait_any_more(self, watch: Watch) -> None:
        before, after = Waiter(), Waiter()
        watch.wait({7: 5, 8: 5}, before)
        assert not watch.draining

        watch.drain()
        ticket = watch.wait({7: 5}, after)

        assert watch.draining
        assert (before.count, after.count, watch.waiting) == (1, 1, 1)
        watch.cancel(ticket)
        assert watch.waiting == 1

    def test_who_waits_for_no_partition_is_woken_with_everybody_else(self, watch: Watch) -> None:
        waiter = Waiter()
        ticket = watch.wait({}, waiter)
        assert watch.waiting == 1

        watch.wake_all()
        watch.drain()

        assert waiter.count == 2
        watch.cancel(ticket)
        assert watch.waiting == 0

    def test_who_is_told_where_partitions_end_need_not_look(self, watch: Watch) -> None:
        ticket = watch.wait({7: 5, 8: 5}, Waiter())

        watch.appended({7: 9, 8: 5, 9: 1})

        assert ticket.found == {7: 9, 8: 5}

    def test_who_is_woken_at_once_may_ask_for_anything_meanwhile(self, watch: Watch) -> None:
        watch.drain()
        woken = threading.Event()

        def wake() -> None:
            watch.appended({7: 9})
            woken.set()

        threading.Thread(target=watch.wait, args=({7: 5}, wake), daemon=True).start()

        assert woken.wait(300), "it was woken while the lock was held that it needs"


class TestPoller:
    def test_what_another_process_commits_wakes(self, watch: Watch, store: Store, other: Store) -> None:
        [partition_id] = created(store).partition_ids
        waiter = Waiter()
        watch.start()
        watch.wait({partition_id: 0}, waiter)

        append(other)

        waiter.await_wake()

    def test_that_another_process_drops_the_event_type_wakes_who_waits_for_that_alone(
        self, watch: Watch, store: Store, other: Store
    ) -> None:
        dropped, kept = created(store), created(store, "another.feed")
        waiter, another = Waiter(), Waiter()
        watch.start()
        watch.wait({dropped.partition_ids[0]: 0}, waiter)
        watch.wait({kept.partition_ids[0]: 0}, another)
        with other.write() as tx:
            tx.feeds.delete(NAME)

        waiter.await_wake()

        assert another.count == 0

    def test_what_was_committed_just_before_the_wait_wakes(self, watch: Watch, store: Store, other: Store) -> None:
        """Whoever waits has read before: in between another process may have committed."""
        [partition_id] = created(store).partition_ids
        watch.start()
        first, second = Waiter(), Waiter()
        watch.wait({partition_id: 0}, first)
        append(other)
        first.await_wake()  # The poller has looked, and has no other reason to look again.

        watch.wait({partition_id: 0}, second)

        second.await_wake()

    def test_an_outbox_is_moved_though_nobody_reads(self, watch: Watch, store: Store, moves: Moves) -> None:
        watch.start()

        into_outbox(store, [("unheard.of", "{}")])

        assert moves.await_number(1)[0] == "unheard.of"

    def test_a_move_that_is_under_way_is_not_asked_for_again(
        self, watch: Watch, store: Store, other: Store, moves: Moves
    ) -> None:
        [partition_id] = created(store).partition_ids
        watch.start()
        into_outbox(store, [(NAME, "{}")])
        _, moving = moves.await_number(1)

        waiter = Waiter()
        watch.wait({partition_id: 0}, waiter)
        append(other)
        waiter.await_wake()  # It has looked again since.
        assert len(moves.asked) == 1

        moving.set_result(None)
        into_outbox(store, [(NAME, "{}")])
        assert moves.await_number(2)[0] == NAME

    def test_a_move_that_has_failed_is_asked_for_again_though_nothing_changes(
        self, watch: Watch, store: Store, moves: Moves, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watching, "RETRY_S_MAX", 0.01)
        watch.start()
        into_outbox(store, [(NAME, "{}")])

        moves.await_number(1)[1].set_exception(DatabaseUnavailable(reason="away", retry_after=1))
        moves.await_number(2)[1].set_exception(DatabaseUnavailable(reason="away", retry_after=1))

        assert moves.await_number(3)[0] == NAME

    def test_an_outage_is_survived(self, store: Store, other: Store, moves: Moves) -> None:
        class Away:
            """The store, whose database cannot be asked the first three times."""

            def __init__(self) -> None:
                self.asked = 0

            def __getattr__(self, name: str) -> Any:
                return getattr(store, name)

            def watch(self) -> Watcher:
                self.asked += 1
                if self.asked <= 3:
                    raise DatabaseUnavailable(reason="away", retry_after=1)
                return store.watch()

        [partition_id] = created(store).partition_ids
        away, waiter = Away(), Waiter()
        watch = Watch(away, moves)
        watch.start()
        watch.wait({partition_id: 0}, waiter)
        append(other)

        waiter.await_wake()

        assert away.asked == 4
        watch.stop()

    @pytest.mark.parametrize("soon", [0.0, 60.0], ids=["after a change", "after a while"])
    def test_settings_are_looked_at_again(
        self, store: Store, other: Store, moves: Moves, monkeypatch: pytest.MonkeyPatch, soon: float
    ) -> None:
        monkeypatch.setattr(watching, "REFRESH_S", soon)
        monkeypatch.setattr(watching, "REFRESH_S_MAX", 60.0 - soon)
        created(store)
        refreshed = threading.Semaphore(0)
        watch = Watch(store, moves, refreshed.release)
        watch.start()
        assert refreshed.acquire(timeout=60), "the first look finds everything changed"

        append(other)

        assert refreshed.acquire(timeout=60)
        watch.stop()

    def test_settings_are_not_looked_at_where_nothing_has_changed(
        self, store: Store, moves: Moves, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watching, "REFRESH_S", 0.0)
        monkeypatch.setattr(watching, "IDLE_S", 0.001)
        refreshed: list[None] = []
        asked = Asked(store)
        watch = Watch(asked, moves, lambda: refreshed.append(None))
        watch.start()
        while asked.times < 20:
            pass
        watch.stop()

        assert refreshed == []

    def test_a_look_at_the_settings_that_fails_is_followed_by_another(
        self, store: Store, other: Store, moves: Moves, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watching, "REFRESH_S", 0.0)
        [partition_id] = created(store).partition_ids
        waiter, times, again = Waiter(), [], threading.Event()

        def fails_once() -> None:
            times.append(1)
            if len(times) == 1:
                raise ZeroDivisionError
            again.set()

        watch = Watch(store, moves, fails_once)
        watch.start()
        assert again.wait(300)

        watch.wait({partition_id: 0}, waiter)
        append(other)
        waiter.await_wake()
        watch.stop()

    def test_while_nothing_happens_it_asks_less_often(
        self, store: Store, moves: Moves, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watching, "CALM_S", 0.0)
        asked = Asked(store)
        watch = Watch(asked, moves)
        watch.wait({7: 0}, Waiter())
        began = time.monotonic()
        watch.start()
        time.sleep(0.4)
        watch.stop()

        assert 0 < asked.times <= 2 + (time.monotonic() - began) / asked.calm_poll_s

    def test_there_is_one_poller_however_often_it_is_started_and_none_afterwards(self, watch: Watch) -> None:
        before = _pollers()
        for _ in range(3):
            watch.start()
        assert _pollers() == before + 1

        watch.stop()

        assert _pollers() == before


def _pollers() -> int:
    return sum(thread.name == "penstock-watch" for thread in threading.enumerate())
