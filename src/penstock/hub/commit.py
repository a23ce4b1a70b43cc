"""Group commit: one thread a process appends what publishers have queued, in one transaction and with one fsync.

Invariants:
    A future is told its result only after the commit.
    Locks are taken in one order: outbox, event types, heads, each kind sorted.
    What waits in the outbox of an event type comes before what is appended to it.
    Whatever happens to one request, the others of its group get their own result.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Final

from penstock.core.event import NewEvent
from penstock.errors import (
    EventTypeNotFound,
    HubStopped,
    InsideTransaction,
    OutboxBacklog,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
)
from penstock.hub.append import Published, append_rows, is_stale, lock_heads
from penstock.hub.clock import Clock
from penstock.hub.outbox import MOVE_ROWS, Moved, RowGoneError, reject, take
from penstock.hub.publish import Prepared, prepare
from penstock.storage.store import Store

GROUP_EVENTS_MAX: Final = 20_000
MOVE_SECONDS_MAX: Final = 5.0
STALE_MAX: Final = 10


class Request:
    """One publish on its way into the log; without events it only moves the outbox of its event type."""

    def __init__(
        self,
        name: str,
        events: Sequence[NewEvent] = (),
        prepared: Prepared | None = None,
        lines: Sequence[int] | None = None,
        *,
        direct: bool = False,
    ) -> None:
        """Make a request; a *direct* one comes from a caller who may hold the database in a transaction of its own."""
        self.name = name
        self.events = events
        self.prepared = prepared
        self.lines = lines
        self.direct = direct
        self.moves_until: float | None = None
        """Until when it is put off by its event type's outbox; None as long as it is not."""
        self.future: Future[Published | None] = Future()

    def take_up(self) -> bool:
        """Tell whether it is to be carried out: who has given up before is not published."""
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def succeed(self, published: Published | None) -> None:
        """Tell the publisher what was stored."""
        with suppress(InvalidStateError):  # It was told already that nobody could wait for it any longer.
            self.future.set_result(published)

    def fail(self, error: BaseException) -> None:
        """Tell the publisher that nothing of it was stored, or what else *error* says."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


class _StaleError(Exception):
    """The event types have changed since these requests were prepared; nothing was written."""

    def __init__(self, requests: list[Request]) -> None:
        self.requests = requests


class _FullError(Exception):
    """The transaction was filled by the outbox of one event type, of which more may wait; nothing else was appended."""

    def __init__(self, name: str) -> None:
        self.name = name


class Committer:
    """Appends for one process, up to *group_events_max* events in one transaction; one request is never divided."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        appended: Callable[[dict[int, int]], None],
        group_events_max: int = GROUP_EVENTS_MAX,
    ) -> None:
        self._store = store
        self._clock = clock
        self._appended = appended
        self._group_events_max = group_events_max
        self._queue: deque[Request] = deque()
        self._group: Sequence[Request] = ()
        self._wake = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def submit(self, request: Request) -> "Future[Published | None]":
        """Queue *request* and return at once.

        Raises:
            HubStopped: the hub is shutting down.
        """
        with self._wake:
            if self._stopping:
                raise HubStopped(retry_after=1)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-committer", daemon=True)
                self._thread.start()
            self._queue.append(request)
            self._wake.notify()
        return request.future

    def stop(self, timeout_s: float | None = None) -> None:
        """Append what is queued, then end.

        When *timeout_s* is over, what is still queued is told that the hub has stopped, and what is just being appended
        that nobody knows; None waits for as long as it takes.
        """
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread is None:
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            with self._wake:
                queued, begun = list(self._queue), self._group
                self._queue.clear()
            _fail(queued, HubStopped(retry_after=1))
            _fail(begun, OutcomeUnknown(reason="the hub was stopped while the database was busy"))

    @property
    def _ended(self) -> bool:
        return self._stopping and not self._queue

    def _run(self) -> None:
        while not self._ended:
            self._group = self._next_group()
            self._commit(self._group)
            self._group = ()

    def _next_group(self) -> list[Request]:
        with self._wake:
            while not self._queue and not self._stopping:
                self._wake.wait()
            group, events = [], 0
            while self._queue and events < self._group_events_max:
                request = self._queue.popleft()
                if request.take_up():
                    group.append(request)
                    events += len(request.events)
            return group

    def _commit(self, group: list[Request]) -> None:
        if not group:
            return
        try:
            results = self._settled(group)
        except _FullError as full:  # Nobody waits for another event type's outbox.
            self._commit([request for request in group if request.name != full.name])
            self._put_off([request for request in group if request.name == full.name])
        except InsideTransaction as error:
            _fail([request for request in group if request.direct], error)
            self._commit([request for request in group if not request.direct])
        except (Unavailable, OutcomeUnknown) as error:
            _fail(group, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is handed to the request that it concerns
            if len(group) == 1:
                group[0].fail(error)
                return
            for request in group:
                self._commit([request])
        else:
            for request, result in results:
                request.succeed(result)

    def _put_off(self, group: Iterable[Request]) -> None:
        """Queue requests again behind all others: more of their outbox has to be moved first."""
        now = time.monotonic()
        for request in group:
            request.moves_until = request.moves_until or now + MOVE_SECONDS_MAX
            if now > request.moves_until:
                request.fail(OutboxBacklog(event_type=request.name, seconds=MOVE_SECONDS_MAX, retry_after=1))
            else:
                with self._wake:
                    self._queue.append(request)

    def _settled(self, group: list[Request]) -> list[tuple[Request, Published | None]]:
        """Append *group* in one transaction, preparing again what its event type has left behind meanwhile."""
        for _ in range(STALE_MAX):
            try:
                results = self._append(group)
            except _StaleError as found:
                group = self._refreshed(group, found.requests)
            else:
                if results is not None:
                    return list(zip(group, results, strict=True))
            if not group:
                return []
        raise Unavailable(reason="the event type keeps changing", retry_after=1)

    def _append(self, group: list[Request]) -> list[Published | None] | None:
        """Append in one transaction; None when the outbox had to be moved row by row first."""
        names = sorted({request.name for request in group})
        moved_any = False
        try:
            with self._store.write(patient=not any(request.direct for request in group)) as tx:
                moved = take(tx, names, self._clock)
                moved_any = bool(moved.batches)
                requests = [] if moved.full else group
                batches = [*moved.batches, *(request.prepared for request in requests)]
                heads = lock_heads(tx, batches)
                stale = [request for request in requests if request.prepared and is_stale(request.prepared, heads)]
                if stale or any(is_stale(batch, heads) for batch in moved.batches):
                    raise _StaleError(stale)
                results = append_rows(tx, batches, heads, self._clock())
        except (_StaleError, Unavailable, InsideTransaction, OutcomeUnknown):
            raise
        except Exception:
            if not moved_any:
                raise
            self._move_one_by_one(names)
            return None
        self._appended({partition_id: head.next_offset for partition_id, head in heads.items()})
        if moved.full:
            raise _FullError(moved.full)
        return results[len(moved.batches) :]

    def _move_one_by_one(self, names: Sequence[str]) -> None:
        """Move up to a transaction's worth of rows, each in a transaction of its own; reject the one at fault."""
        for _ in range(MOVE_ROWS):
            with self._store.read() as tx:
                waiting = sorted(tx.outbox.waiting(names))
            if not waiting:
                return
            with suppress(_StaleError, RowGoneError):  # Another hub was there between two looks: look again.
                self._move_one(waiting[0])

    def _move_one(self, name: str) -> None:
        moved = Moved([], None, [])
        try:
            with self._store.write() as tx:
                moved = take(tx, [name], self._clock, limit=1)
                heads = lock_heads(tx, moved.batches)
                if any(is_stale(batch, heads) for batch in moved.batches):
                    raise _StaleError([])
                append_rows(tx, moved.batches, heads, self._clock())
        except (_StaleError, Unavailable, InsideTransaction, OutcomeUnknown):
            raise
        except Exception as error:
            if not moved.row_ids:
                raise
            with self._store.write() as tx:
                reject(tx, name, moved.row_ids[0], f"the log refused it: {error}", self._clock)
        else:
            self._appended({partition_id: head.next_offset for partition_id, head in heads.items()})

    def _refreshed(self, group: list[Request], stale: list[Request]) -> list[Request]:
        """Prepare the stale ones again by what the event types are now; those that no longer fit are told so."""
        left = list(group)
        for request in stale:
            try:
                with self._store.read() as tx:
                    feed = tx.feeds.find(request.name)
                if feed is None:
                    raise EventTypeNotFound(event_type=request.name)
                request.prepared = prepare(feed, request.events, self._clock(), request.lines)
            except PenstockError as error:
                request.fail(error)
                left.remove(request)
        return left


def _fail(group: Iterable[Request], error: BaseException) -> None:
    for request in group:
        request.fail(error)
