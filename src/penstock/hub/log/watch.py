"""Wakes readers that wait for events: one poller a process, without a connection or a thread for each reader.

The poller also starts moving the outbox and refreshing the settings, because it knows when the database has changed.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, NamedTuple

import structlog

from penstock.hub.background import Background
from penstock.storage.store import Store, Tx, Watcher

RETRY_INTERVAL_MAX: Final = 1.0
"""The longest pause of the poller while the database is unavailable."""
IDLE_INTERVAL: Final = 0.250
"""The interval of the poller while no reader waits: often enough for the outbox."""
CALM_SECONDS: Final = 1.0
"""The poller polls less often after this long without news."""
REFRESH_INTERVAL: Final = 0.5
"""The shortest interval between two refreshes of the settings, while the database changes."""
REFRESH_INTERVAL_MAX: Final = 60.0
"""The longest interval between two refreshes: it shows that the database still answers."""
ENDS_KEPT: Final = 10_000
"""The ends of so many partitions are remembered."""
_log: Final = structlog.get_logger("penstock.watch")


class Waiter:
    """A reader that waits."""

    def __init__(self, offsets: Mapping[int, int], wake: Callable[[], None]) -> None:
        self.offsets = dict(offsets)
        self.wake = wake
        self.found: dict[int, int] = {}
        """By partition id: the next offset of the partitions for which it was woken."""


class PollerTasks(NamedTuple):
    """The tasks of the poller, besides waking readers."""

    move: Callable[[str], Future[Any]]
    """Starts moving the outbox of an event type."""
    refresh: Callable[[], object] = lambda: None
    """Reads the settings; raises if it cannot."""
    poll_streams: Callable[[Tx], bool] = lambda _: False
    """Notifies the streams that other hubs have changed; returns whether there are any."""


class Watch:
    """Wakes waiting readers when the offsets that they wait for exist.

    The committer reports commits of this process to `notify_appended`; the poller finds those of other processes,
    and rows in the outbox.
    """

    def __init__(self, store: Store) -> None:
        self._tasks: PollerTasks  # From `start` on.
        self._refreshed_at = time.monotonic()
        self._stale = False
        self._store = store
        self._moving: dict[str, Future[Any]] = {}
        self._guard = threading.Lock()
        self._tickets: dict[int, set[Waiter]] = defaultdict(set)
        self._all: set[Waiter] = set()
        self._ends: dict[int, int] = {}
        """By partition id: the next offset, as last seen. A reader that begins to wait may not know it yet."""
        self._fresh = threading.Event()
        self._look = True
        self._found_at = time.monotonic()
        self._try_again_at: float | None = None
        self._draining = False
        self._stopping = False
        self._thread = Background("penstock-watch", self._run)

    @property
    def waiting(self) -> int:
        """The number of waiting readers."""
        return len(self._all)

    def start(self, tasks: PollerTasks) -> None:
        """Start the poller, which carries out *tasks* too; harmless when repeated."""
        self._tasks = tasks
        self._thread.start()

    def wait(self, offsets: Mapping[int, int], wake: Callable[[], None]) -> Waiter:
        """Call *wake*, from any thread, once one of these partitions has its offset; `cancel` the waiter afterwards.

        *wake* is also called when an event type is dropped, when settings change, so that readers check their
        permission again, and when the hub stops.
        """
        ticket = Waiter(offsets, wake)
        with self._guard:
            if is_draining := self._draining:
                has_come = False
            else:
                for partition_id, offset in offsets.items():
                    self._tickets[partition_id].add(ticket)
                    if (end := self._ends.get(partition_id, 0)) > offset:
                        ticket.found[partition_id] = end  # Committed between the reader's read and this call.
                has_come = bool(ticket.found)
                self._all.add(ticket)
                self._look = True  # Another process may have committed then.
        if is_draining or has_come:
            wake()
        if not is_draining:
            self._fresh.set()
        return ticket

    def cancel(self, ticket: Waiter) -> None:
        """Remove a waiter; harmless when repeated."""
        with self._guard:
            self._all.discard(ticket)
            for partition_id in ticket.offsets:
                if (tickets := self._tickets.get(partition_id)) and ticket in tickets:
                    tickets.discard(ticket)
                    if not tickets:
                        del self._tickets[partition_id]

    def notify_appended(self, next_offsets: Mapping[int, int]) -> int:
        """Wake the readers that wait for events below these next offsets; return their number."""
        with self._guard:
            if len(self._ends) >= ENDS_KEPT:
                self._ends.clear()
            self._ends.update(next_offsets)
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

    def notify_dropped(self, partition_ids: Iterable[int]) -> None:
        """Wake the readers that wait for events of dropped partitions."""
        with self._guard:
            woken = {ticket for partition_id in partition_ids for ticket in self._tickets.get(partition_id, ())}
        for ticket in woken:
            ticket.wake()

    def wake_all(self) -> None:
        """Wake all readers once, so that they check their rights again."""
        with self._guard:
            woken = set(self._all)
        for ticket in woken:
            ticket.wake()

    def drain(self) -> None:
        """Wake all readers, and end every later wait at once."""
        with self._guard:
            self._draining = True
        self.wake_all()

    @property
    def draining(self) -> bool:
        """True if every wait ends at once."""
        return self._draining

    def stop(self, timeout: float | None = None) -> bool:
        """Wake all readers and end the poller; return whether it has ended within *timeout*."""
        self.drain()
        self._stopping = True
        self._fresh.set()
        return self._thread.wait_for_end(timeout)

    def _run(self) -> None:
        watcher: Watcher | None = None
        failures = 0
        while not self._stopping:
            try:
                watcher = watcher or self._store.watch()
                changed = watcher.has_changed()
                self._stale |= changed
                if changed or self._look or self._tries_again():
                    self._poll()
                self._refresh_if_due()
                failures = 0
            except Exception as error:  # noqa: BLE001 - if this thread ended, readers would wait for ever
                failures += 1
                if failures & (failures - 1) == 0:  # The 1st, 2nd, 4th, 8th … time, to keep the log short.
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
            self._tasks.refresh()
            self._refreshed_at, self._stale = time.monotonic(), False

    def _pause(self) -> None:
        if self._all or self._stopping:
            is_calm = time.monotonic() - self._found_at > CALM_SECONDS
            time.sleep(self._store.calm_poll_interval if is_calm else self._store.poll_interval)
        else:
            self._fresh.wait(IDLE_INTERVAL)
            self._fresh.clear()

    def _poll(self) -> None:
        with self._guard:
            self._look = False
            watched: Sequence[int] = list(self._tickets)
        with self._store.read() as tx:
            waiting, heads = tx.outbox.find_waiting_and_heads(None, watched)
            if heads is None:
                heads = tx.log.find_heads(watched) if watched else {}
            found = self._tasks.poll_streams(tx)
        self._move_each(waiting)
        self.notify_dropped(set(watched) - heads.keys())
        if (
            self.notify_appended({partition_id: head.next_offset for partition_id, head in heads.items()})
            or waiting
            or found
        ):
            self._found_at = time.monotonic()

    def _move_each(self, names: Iterable[str]) -> None:
        """Start moving the outbox of each event type, unless it is being moved."""
        self._moving = {name: moving for name, moving in self._moving.items() if not moving.done()}
        for name in names:
            if name not in self._moving:
                self._moving[name] = moving = self._tasks.move(name)
                moving.add_done_callback(self._try_again_if_failed)

    def _try_again_if_failed(self, moving: Future[Any]) -> None:
        if moving.cancelled() or moving.exception():
            self._try_again_at = time.monotonic() + RETRY_INTERVAL_MAX

    def _tries_again(self) -> bool:
        """Return True once when it is time to move an outbox again that could not be moved."""
        due = self._try_again_at is not None and time.monotonic() >= self._try_again_at
        if due:
            self._try_again_at = None
        return due
