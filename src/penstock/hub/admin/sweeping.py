"""Removes dropped and expired data, in small transactions, so that other writers get their turn."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog

from penstock.hub.background import Background, Clock, StepSize, system_clock
from penstock.hub.producers.producers import BATCHES_KEPT, Expiry, expire
from penstock.storage.log.removal import UnsweptRange
from penstock.storage.store import Store

SWEEP_ROWS: Final = 5_000
DELETE_ROWS: Final = (100, 5_000)
"""The fewest and the most events that one transaction deletes."""
DELETE_SECONDS: Final = 0.005
"""The number of events is adapted so that such a transaction takes about this long."""
PAUSE_SHARE: Final = 2.0
"""After each such transaction others get so much of the time that it took. On SQLite they wait for it."""
UNSWEPT_MAX: Final = 100
"""The number of partitions that are looked up at once."""
SWEEP_PRODUCERS: Final = 500
SWEEP_UPLOADS: Final = 500
SWEEP_CHUNKS: Final = 50
UPLOAD_SECONDS: Final = 86_400.0
"""An upload expires after this long without a publish or another chunk."""
TOKENS_KEPT_SECONDS: Final = 90 * 86_400.0
"""A token is listed for so long after it has expired."""
REJECTED_SECONDS: Final = 90 * 86_400.0
"""How long rejected rows are kept."""
CHANGES_SECONDS: Final = 365 * 86_400.0
"""How long the history of a consumer group tells of changes that operators made."""
STAGED_KEPT: Final = 100
"""The number of published batches of a producer group that stay known; a query repeats only its last one.

They are forgotten when the epoch of an idempotent producer would be that was heard of for the last time with them.
"""
SWEEP_INTERVAL: Final = 60.0
"""The interval at which retention is applied and producers are expired."""
RETRY_INTERVAL: Final = 5.0
_log: Final = structlog.get_logger("penstock.sweep")


SweepTask = Callable[[Callable[[float], bool]], object]
"""Removes something.

It calls what it is given after each transaction, with the seconds that it took, so that others get their turn; that
returns whether to stop.
"""


class Sweeper:
    """Removes expired events, those of dropped event types, expired idempotent producers and expired uploads."""

    def __init__(
        self,
        store: Store,
        clock: Clock = system_clock,
        expiry: Expiry = Expiry(),  # noqa: B008 - immutable
        tasks: Sequence[SweepTask] = (),
    ) -> None:
        """*tasks* are done one after the other every `SWEEP_INTERVAL`, and when a sweep is started."""
        self._store = store
        self._clock = clock
        self._expiry = expiry
        self._tasks = tasks
        self._unswept: deque[UnsweptRange] = deque()
        self._step = StepSize(*DELETE_ROWS, DELETE_SECONDS)
        self._wanted = threading.Event()
        self._wanted.set()  # A killed hub may have left rows to remove.
        self._stop_wanted = threading.Event()
        self._thread = Background("penstock-sweeper", self._run)

    def start(self) -> None:
        """Start sweeping, once."""
        self._thread.start()

    def sweep(self) -> None:
        """Start a sweep soon."""
        self._wanted.set()

    def stop(self, timeout: float | None = None) -> bool:
        """End after the current transaction; return whether that was within *timeout*."""
        self._stop_wanted.set()
        self._wanted.set()
        return self._thread.wait_for_end(timeout)

    def _run(self) -> None:
        while True:
            self._wanted.wait(SWEEP_INTERVAL)
            self._wanted.clear()
            due, more = time.monotonic(), True
            while more and not self._stop_wanted.is_set():
                if time.monotonic() >= due:  # Also while there is much to delete.
                    due = time.monotonic() + SWEEP_INTERVAL
                    for task in self._tasks:
                        self._attempt(partial(task, self._stop_wanted.wait))
                    while self._attempt(self._expire_some) and not self._stop_wanted.is_set():
                        pass
                more = self._attempt(self._remove_some)
            if self._stop_wanted.is_set():
                return

    def _attempt(self, act: Callable[[], object]) -> bool:
        """Return whether *act* has found anything to do; if it fails, have everything repeated soon."""
        try:
            return bool(act())
        except Exception as error:  # noqa: BLE001 - if this thread ended, nothing would be removed
            _log.warning("sweep failed, trying again", error=str(error))
            again = threading.Timer(RETRY_INTERVAL, self._wanted.set)
            again.daemon = True  # The process does not wait for it at exit.
            again.start()
            return False

    def _remove_some(self) -> bool:
        if self._delete_some():
            return True
        with self._store.read() as tx:
            before = self._compute_cutoff(self._expiry.ttl_seconds)
            unneeded = tx.producers.list_unneeded_batches(SWEEP_ROWS, BATCHES_KEPT, before)
        with self._store.write() as tx:
            removed = len(unneeded) + tx.producers.sweep(unneeded, self._compute_cutoff(self._expiry.floor_seconds))
            if unneeded:
                return True
            removed += tx.batches.sweep(
                self._compute_cutoff(UPLOAD_SECONDS),
                idle_before=self._compute_cutoff(self._expiry.ttl_seconds + self._expiry.floor_seconds),
                kept=STAGED_KEPT,
                uploads=SWEEP_UPLOADS,
                chunks=SWEEP_CHUNKS,
                batches=SWEEP_ROWS,
            )
            tx.access.sweep_tokens(self._compute_cutoff(TOKENS_KEPT_SECONDS))
            removed += tx.outbox.expire_rejected(self._compute_cutoff(REJECTED_SECONDS), SWEEP_ROWS)
            removed += tx.groups.expire_changes(self._compute_cutoff(CHANGES_SECONDS), SWEEP_ROWS)
            return removed + tx.registry.purge_partition() > 0

    def _delete_some(self) -> bool:
        """Delete some events below the floor of their partition; return whether there were any.

        The next ones are looked for where the last ones were: PostgreSQL passes over all that were deleted before,
        until the table is vacuumed.
        """
        if not self._unswept:
            with self._store.read() as tx:
                self._unswept.extend(tx.removal.list_unswept(UNSWEPT_MAX))
        if not self._unswept:
            return False
        partition_id, start, stop = self._unswept.popleft()
        end = min(stop, start + self._step.size)
        began = time.monotonic()
        with self._store.write() as tx:
            deleted = tx.removal.delete(partition_id, start, end)
        took = time.monotonic() - began
        if deleted and end < stop:  # Else all is deleted, or the next events are far away.
            self._unswept.appendleft(UnsweptRange(partition_id, end, stop))
        self._step.adapt(took)
        self._stop_wanted.wait(PAUSE_SHARE * took)
        return True

    def _expire_some(self) -> bool:
        """Expire some idle producers; return whether there were any."""
        since = self._compute_cutoff(self._expiry.ttl_seconds)
        with self._store.read() as tx:
            idle = tx.producers.list_idle(since, limit=SWEEP_PRODUCERS)
        if not idle:
            return False
        with self._store.write() as tx:
            keys = [(producer.partition_id, producer.name) for producer in idle]
            for producer in tx.producers.find(keys, lock=sorted({partition_id for partition_id, _ in keys})).values():
                if producer and producer.updated_at < since and not (producer.is_pinned or producer.state.is_expired):
                    tx.producers.update(expire(producer, self._clock()))
        return True

    def _compute_cutoff(self, seconds: float) -> int:
        return self._clock() - int(seconds * 1_000_000)
