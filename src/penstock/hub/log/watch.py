"""Wakes those who wait for events: one poller a process, no connection and no thread for each who waits.

Since it knows when anything has changed in the database, it also says when the hub's settings may have.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

import structlog

from penstock.hub.background import Background
from penstock.storage.store import Store, Tx, Watcher

RETRY_INTERVAL_MAX: Final = 1.0
"""How long the poller waits at most while the database cannot be asked."""
IDLE_SECONDS: Final = 0.250
"""How often the poller looks while nobody waits: often enough for the outbox."""
CALM_SECONDS: Final = 1.0
"""After so long a time in which nothing was found, the poller looks less often."""
REFRESH_INTERVAL: Final = 0.5
"""How soon after another the settings are looked at again, when anything has changed in the database."""
REFRESH_INTERVAL_MAX: Final = 60.0
"""When they are, though nothing has: so it is known that they can be."""
_log: Final = structlog.get_logger("penstock.watch")


class Waiter:
    """One who waits."""

    def __init__(self, offsets: Mapping[int, int], wake: Callable[[], None]) -> None:
        self.offsets = dict(offsets)
        self.wake = wake
        self.found: dict[int, int] = {}
        """By partition id: where those end for which it was woken, as far as it has been told."""


class Watch:
    """Knows who waits at which offset, and looks for what they wait for.

    Commits of this process are told to it; the poller finds those of others, and what services have put into the
    outbox.
    """

    def __init__(
        self,
        store: Store,
        move: Callable[[str], Future[Any]],
        refresh: Callable[[], object] = lambda: None,
        look_too: Callable[[Tx], bool] = lambda _: False,
    ) -> None:
        """*move* has an outbox moved. *refresh* looks at the settings, and raises where it cannot.

        *look_too* looks for something of its own whenever there may be anything new, and tells whether there was.
        """
        self._refresh = refresh
        self._look_too = look_too
        self._refreshed_at = time.monotonic()
        self._stale = False
        self._store = store
        self._move = move
        self._moving: dict[str, Future[Any]] = {}
        self._guard = threading.Lock()
        self._tickets: dict[int, set[Waiter]] = defaultdict(set)
        self._all: set[Waiter] = set()
        self._fresh = threading.Event()
        self._look = True
        self._found_at = time.monotonic()
        self._try_again_at: float | None = None
        self._draining = False
        self._stopping = False
        self._thread = Background("penstock-watch", self._run)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._all)

    def start(self) -> None:
        """Start the poller, once."""
        self._thread.start()

    def wait(self, offsets: Mapping[int, int], wake: Callable[[], None]) -> Waiter:
        """Have *wake* called, from any thread, once one of these partitions has the offset given; `cancel` afterwards.

        It is called too when the event type of one is dropped, when settings change, so that who waits asks again
        whether it may, and when the hub is stopping.
        """
        ticket = Waiter(offsets, wake)
        with self._guard:
            if waits := not self._draining:
                for partition_id in offsets:
                    self._tickets[partition_id].add(ticket)
                self._all.add(ticket)
                self._look = True  # What was committed between the waiter's read and this call wakes nobody else.
        if waits:
            self._fresh.set()
        else:
            wake()
        return ticket

    def cancel(self, ticket: Waiter) -> None:
        """Forget one who waits; harmless when repeated."""
        with self._guard:
            self._all.discard(ticket)
            for partition_id in ticket.offsets:
                if (tickets := self._tickets.get(partition_id)) and ticket in tickets:
                    tickets.discard(ticket)
                    if not tickets:
                        del self._tickets[partition_id]

    def appended(self, next_offsets: Mapping[int, int]) -> int:
        """Wake those who wait for events below these next offsets; return how many they are."""
        with self._guard:
            woken = {
                ticket
                for partition_id, next_offset in next_offsets.items()
                for ticket in self._tickets.get(partition_id, ())
                if ticket.offsets[partition_id] < next_offset
            }
            for ticket in woken:
                ticket.found |= {each: end for each, end in next_offsets.items() if each in ticket.offsets}
        for ticket in woken:
            ticket.wake()
        return len(woken)

    def dropped(self, partition_ids: Iterable[int]) -> None:
        """Wake those who wait for events of partitions that are no more."""
        with self._guard:
            woken = {ticket for partition_id in partition_ids for ticket in self._tickets.get(partition_id, ())}
        for ticket in woken:
            ticket.wake()

    def wake_all(self) -> None:
        """Wake everybody, once, though there is nothing new to read: something else has changed that concerns them."""
        with self._guard:
            woken = set(self._all)
        for ticket in woken:
            ticket.wake()

    def drain(self) -> None:
        """Wake everybody, and from here on let nobody wait."""
        with self._guard:
            self._draining = True
        self.wake_all()

    @property
    def draining(self) -> bool:
        """Whether waits end at once."""
        return self._draining

    def stop(self, timeout: float | None = None) -> bool:
        """Wake everybody and end the poller; tell whether it has ended within *timeout*."""
        self.drain()
        self._stopping = True
        self._fresh.set()
        return self._thread.ended(timeout)

    def _run(self) -> None:
        watcher: Watcher | None = None
        failures = 0
        while not self._stopping:
            try:
                watcher = watcher or self._store.watch()
                changed = watcher.changed()
                self._stale |= changed
                if changed or self._look or self._tries_again():
                    self._look_around()
                self._refresh_if_due()
                failures = 0
            except Exception as error:  # noqa: BLE001 - whatever it is: were this thread to end, waiters would wait in vain
                failures += 1
                if failures & (failures - 1) == 0:  # The 1st, 2nd, 4th, 8th … time: an outage fills no log.
                    _log.warning("watch failed, looking again", error=str(error), times=failures)
                with suppress(Exception):
                    if watcher is not None:
                        watcher.close()
                watcher = None  # The next one counts everything as changed.
                time.sleep(min(RETRY_INTERVAL_MAX, self._store.poll_interval * failures))
            self._pause()
        if watcher is not None:
            watcher.close()

    def _refresh_if_due(self) -> None:
        since = time.monotonic() - self._refreshed_at
        if since > REFRESH_INTERVAL_MAX or (self._stale and since > REFRESH_INTERVAL):
            self._refresh()
            self._refreshed_at, self._stale = time.monotonic(), False

    def _pause(self) -> None:
        if self._all or self._stopping:
            is_calm = time.monotonic() - self._found_at > CALM_SECONDS
            time.sleep(self._store.calm_poll_interval if is_calm else self._store.poll_interval)
        else:
            self._fresh.wait(IDLE_SECONDS)
            self._fresh.clear()

    def _look_around(self) -> None:
        with self._guard:
            self._look = False
            watched: Sequence[int] = list(self._tickets)
        with self._store.read() as tx:
            waiting = tx.outbox.waiting(None)
            heads = tx.events.heads(watched) if watched else {}
            found = self._look_too(tx)
        self._move_each(waiting)
        self.dropped(set(watched) - heads.keys())
        if self.appended({partition_id: head.next_offset for partition_id, head in heads.items()}) or waiting or found:
            self._found_at = time.monotonic()

    def _move_each(self, names: Iterable[str]) -> None:
        """Have the outbox of each moved, unless that is under way already."""
        self._moving = {name: moving for name, moving in self._moving.items() if not moving.done()}
        for name in names:
            if name not in self._moving:
                self._moving[name] = moving = self._move(name)
                moving.add_done_callback(self._try_again_if_failed)

    def _try_again_if_failed(self, moving: Future[Any]) -> None:
        if moving.cancelled() or moving.exception():
            self._try_again_at = time.monotonic() + RETRY_INTERVAL_MAX

    def _tries_again(self) -> bool:
        """Tell, once, that a while has passed since an outbox could not be moved."""
        due = self._try_again_at is not None and time.monotonic() >= self._try_again_at
        if due:
            self._try_again_at = None
        return due
