"""Keeps the lease of this hub process, and ends sessions that are left over.

Other processes may take the partitions of a hub whose lease has expired. docs/decisions/leases.md gives the reasons.

Invariants:
    A stream is sent events only while its process knows the lease to be valid, by a monotonic clock. Other processes
    count the lease as expired no sooner than `LEASE_SECONDS` after the database last saw this hub.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection
from itertools import count
from typing import Final

import structlog

from penstock.hub.background import Background, uptime
from penstock.hub.subscriptions.local_streams import LocalStreams
from penstock.hub.subscriptions.sessions import LEASE_SECONDS
from penstock.storage.store import Store

RENEW_INTERVAL: Final = LEASE_SECONDS / 5
SWEEP_INTERVAL: Final = 1.0
"""How often the hub looks for expired sessions."""
MARGIN_SECONDS: Final = 1.0
"""A hub counts its own lease as expired this many seconds sooner than other hubs do."""
ORPHAN_ROUNDS: Final = 10
"""The number of sweeps between looks for the hub's own sessions that no stream sends."""
FORGET_ROUNDS: Final = 3_600
"""The number of sweeps between removals of hubs."""
FORGET_US: Final = 3_600_000_000
"""The age, in microseconds, of the last sign of a hub that is removed."""
_log: Final = structlog.get_logger("penstock.lease")


class HubLease:
    """The lease of one process. Safe to use from many threads.

    Two background threads start with the first renewal. One renews the lease while there are streams. The other closes
    streams that could not be closed, sweeps expired sessions, and ends orphaned ones.
    """

    def __init__(
        self,
        store: Store,
        streams: LocalStreams,
        hub_id: str,
        *,
        sweep: Callable[[Collection[str]], None],
        end: Callable[[str, str], None] = lambda *_: None,
        monotonic: Callable[[], float] = uptime,
    ) -> None:
        """Prepare the lease of a hub; `renew` acquires it.

        Args:
            store: where the lease is kept.
            streams: the streams that depend on the lease.
            hub_id: the name of the lease.
            sweep: reassigns the partitions of expired sessions of the given subscriptions.
            end: ends an orphaned session, given its subscription and its id.
            monotonic: a clock in seconds that does not go back.
        """
        self._store = store
        self._streams = streams
        self._hub_id = hub_id
        self._sweep = sweep
        self._end = end
        self._monotonic = monotonic
        self._guard = threading.Lock()
        self._valid_until = float("-inf")
        self.lapses = 0
        """How often the lease was acquired again after it had expired."""
        self._unclosed: deque[Callable[[], None]] = deque()
        self._stopping = threading.Event()
        self._orphans: set[tuple[str, str]] = set()
        self._threads = (Background("penstock-lease", self._keep), Background("penstock-tidy", self._tidy))

    @property
    def is_valid(self) -> bool:
        """True while the lease is valid."""
        return self._monotonic() < self._valid_until

    @property
    def outlasts_renewal(self) -> bool:
        """True if the lease stays valid until its next renewal. Without streams there are no renewals."""
        return self._monotonic() + 2 * RENEW_INTERVAL < self._valid_until

    def renew(self) -> None:
        """Renew the lease, or acquire it again.

        Raises:
            DatabaseUnavailable: the lease was not renewed.
        """
        asked_at = self._monotonic()
        with self._store.write() as tx:
            tx.subscriptions.see_hub(self._hub_id)
        if not self.is_valid:  # Other hubs may have taken partitions: streams read a snapshot before they go on.
            with self._guard:
                self.lapses += 1
            self._streams.notify_all()
        self._valid_until = max(self._valid_until, asked_at + LEASE_SECONDS - MARGIN_SECONDS)
        self._start()

    def close_later(self, close: Callable[[], None]) -> None:
        """Retry *close*, which could not reach the database, until it succeeds."""
        self._unclosed.append(close)
        self._start()

    def stop(self, timeout: float | None = None) -> bool:
        """Stop the background threads; return whether they ended within *timeout*."""
        self._stopping.set()
        ended = [thread.wait_for_end(timeout) for thread in self._threads]
        return all(ended)

    def _start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _keep(self) -> None:
        """Renew the lease at intervals. Nothing else runs on this thread, so nothing else can delay the renewal."""
        while not self._stopping.wait(RENEW_INTERVAL):
            if len(self._streams):
                self._try("renew the lease", self.renew)

    def _tidy(self) -> None:
        """Close, sweep and end at intervals what streams and hubs have left over."""
        rounds = count(1)
        while not self._stopping.wait(SWEEP_INTERVAL):
            for _ in range(len(self._unclosed)):  # Each once: one that always fails delays no other.
                close = self._unclosed.popleft()
                if not self._try("end a stream", close):
                    self._unclosed.append(close)
            if ids := self._streams.subscription_ids:
                self._try("sweep expired sessions", lambda: self._sweep(ids))
            number = next(rounds)
            if number % ORPHAN_ROUNDS == 0:
                self._try("end orphaned sessions", self._end_orphans)
            if number % FORGET_ROUNDS == 0:
                self._try("remove old hubs", self._forget_hubs)

    def _try(self, task: str, run: Callable[[], object]) -> bool:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - any error: without these threads no stream would go on
            _log.warning(f"could not {task}, trying again", error=str(error))
            return False
        return True

    def _end_orphans(self) -> None:
        """End sessions of this hub that no stream sends, because the reply to their opening was lost."""
        with self._store.read() as tx:
            sessions = tx.subscriptions.list_sessions(hub_id=self._hub_id)
        orphans = {(each.subscription, each.id) for each in sessions if each.id not in self._streams}
        for subscription_id, session_id in orphans & self._orphans:  # A session found once may be just starting.
            self._end(subscription_id, session_id)
        self._orphans = orphans

    def _forget_hubs(self) -> None:
        with self._store.write() as tx:
            tx.subscriptions.sweep(tx.now() - FORGET_US)
