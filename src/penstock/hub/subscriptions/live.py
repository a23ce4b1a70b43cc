"""Renews the lease of this hub process, and tells its streams what has changed.

The process tells its streams its own commits. For changes that other hubs make, the poller of `Watch` asks one query,
however many streams there are. docs/decisions/leases.md gives the reasons.

Invariants:
    A stream is sent events only while the process's lease is known to hold, by a monotonic clock. Other processes count
    it as gone no sooner than `LEASE_SECONDS` after the database last saw it.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import Final, Protocol

import structlog

from penstock.core.subscriptions.assignment import FeedPartition
from penstock.hub.background import Background, uptime
from penstock.hub.subscriptions.commits import Moved
from penstock.hub.subscriptions.sessions import LEASE_SECONDS
from penstock.storage.store import Store, Tx

RENEW_INTERVAL: Final = LEASE_SECONDS / 5
SWEEP_INTERVAL: Final = 1.0
"""How often it is looked for streams whose time is over."""
MARGIN_SECONDS: Final = 1.0
"""So much sooner than others a hub counts itself as gone."""
ORPHAN_ROUNDS: Final = 10
"""After so many rounds of looking it is looked for streams of this hub that it does not know …"""
FORGET_ROUNDS: Final = 3_600
"""… and after so many, hubs are forgotten …"""
FORGET_US: Final = 3_600_000_000
"""… that were last seen so long ago."""
_log: Final = structlog.get_logger("penstock.live")


class Listener(Protocol):
    """A stream, as far as it is told things; from any thread."""

    session_id: str
    subscription_id: str

    def committed(self, offsets: Mapping[FeedPartition, int]) -> None:
        """Everything below these offsets is committed."""

    def changed(self) -> None:
        """Something else has changed: look."""

    def was_sent(self, place: FeedPartition, position: int) -> bool:
        """Tell whether everything of a partition was sent, up to *position*."""


class Live:
    """The streams of one process. Safe to use from many threads."""

    def __init__(
        self,
        store: Store,
        sweep: Callable[[list[str]], None],
        hub_id: str,
        monotonic: Callable[[], float] = uptime,
        end: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        """*sweep* shares out anew what streams have left whose time is over, of the subscriptions given.

        *end* ends a stream, by its subscription and its id, of which nobody knows what it was sent.
        """
        self._store = store
        self._sweep = sweep
        self._end = end
        self._monotonic = monotonic
        self._hub_id = hub_id
        self._guard = threading.Lock()
        self._streams: dict[str, Listener] = {}
        self._by_subscription: dict[str, set[Listener]] = defaultdict(set)
        self._revisions: dict[str, int] = {}
        self._valid_until = float("-inf")
        self.lapses = 0
        """How often the lease has begun anew."""
        self._unclosed: deque[Callable[[], None]] = deque()
        self._stopping = threading.Event()
        self._orphans: set[tuple[str, str]] = set()
        self._threads = (Background("penstock-lease", self._keep), Background("penstock-tidy", self._tidy))

    @property
    def holds(self) -> bool:
        """Whether the lease holds."""
        return self._monotonic() < self._valid_until

    @property
    def lasts(self) -> bool:
        """Whether the lease holds until it has been renewed the next time, which nobody did while nothing was sent."""
        return self._monotonic() + 2 * RENEW_INTERVAL < self._valid_until

    @property
    def streams(self) -> int:
        """How many there are."""
        return len(self._streams)

    def renew(self) -> None:
        """Have the database see this hub.

        Raises:
            DatabaseUnavailable: it could not be asked.
        """
        asked_at = self._monotonic()
        with self._store.write() as tx:
            tx.subscriptions.see_hub(self._hub_id)
        if not self.holds:  # Others may have what these streams had: they look before they go on.
            with self._guard:
                self.lapses += 1
                streams = list(self._streams.values())
            for stream in streams:
                stream.changed()
        self._valid_until = max(self._valid_until, asked_at + LEASE_SECONDS - MARGIN_SECONDS)
        self._start()

    def join(self, stream: Listener, revision: int) -> None:
        """Begin to tell a stream what changes after that *revision* of its subscription."""
        with self._guard:
            self._streams[stream.session_id] = stream
            self._by_subscription[stream.subscription_id].add(stream)
            known = self._revisions.setdefault(stream.subscription_id, revision)
            self._revisions[stream.subscription_id] = min(known, revision)

    def leave(self, stream: Listener) -> None:
        """Tell a stream nothing more; harmless when repeated."""
        with self._guard:
            self._streams.pop(stream.session_id, None)
            streams = self._by_subscription.get(stream.subscription_id)
            if streams is not None:
                streams.discard(stream)
                if not streams:
                    del self._by_subscription[stream.subscription_id]
                    self._revisions.pop(stream.subscription_id, None)

    def was_sent(self, session_id: str, place: FeedPartition, position: int) -> bool | None:
        """Tell whether a stream was sent everything of a partition up to *position*; None: it is not of this hub."""
        stream = self._streams.get(session_id)
        return None if stream is None else stream.was_sent(place, position)

    def moved(self, moved: Moved) -> None:
        """Tell the streams of a subscription what this process has committed for it."""
        with self._guard:
            streams = list(self._by_subscription.get(moved.subscription, ()))
            known = self._revisions.get(moved.subscription)
            if known is not None and known + 1 == moved.revision and not moved.shared_out:
                self._revisions[moved.subscription] = moved.revision  # Nobody else has done anything in between.
        for stream in streams:
            stream.committed(moved.offsets)
            if moved.shared_out:
                stream.changed()

    def changed(self, subscription_id: str) -> None:
        """Have the streams of a subscription look, since this process has changed something."""
        with self._guard:
            streams = list(self._by_subscription.get(subscription_id, ()))
        for stream in streams:
            stream.changed()

    def close_later(self, close: Callable[[], None]) -> None:
        """Call *close*, which could not reach the database, again and again until it can."""
        self._unclosed.append(close)
        self._start()

    def look(self, tx: Tx) -> bool:
        """Find out which subscriptions others have changed, and have their streams look; tell if there are any."""
        with self._guard:
            known = dict(self._revisions)
        if not known:
            return False
        found = tx.subscriptions.find_revisions(known)
        woken: list[Listener] = []
        with self._guard:
            for each, revision in known.items():
                now = found.get(each, -1)
                if now != revision and self._revisions.get(each) == revision:
                    self._revisions[each] = now
                    woken += self._by_subscription.get(each, ())
        for stream in woken:
            stream.changed()
        return bool(woken)

    def stop(self, timeout: float | None = None) -> bool:
        """End the threads that keep up the lease and tidy; tell whether they have ended within *timeout*."""
        self._stopping.set()
        ended = [thread.ended(timeout) for thread in self._threads]
        return all(ended)

    def _start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _keep(self) -> None:
        """Keep up the lease, whatever holds up everything else."""
        while not self._stopping.wait(RENEW_INTERVAL):
            if self._streams:
                self._try("renew the lease", self.renew)

    def _tidy(self) -> None:
        """End again and again what could not be ended, and share out anew what is left of streams that are gone."""
        rounds = count(1)
        while not self._stopping.wait(SWEEP_INTERVAL):
            for _ in range(len(self._unclosed)):  # Each once: one that never can holds up no other.
                close = self._unclosed.popleft()
                if not self._try("end a stream", close):
                    self._unclosed.append(close)
            with self._guard:
                ids = list(self._by_subscription)
            if ids:
                self._try("look for streams that are gone", lambda: self._sweep(ids))  # noqa: B023 - at once
            number = next(rounds)
            if number % ORPHAN_ROUNDS == 0:
                self._try("look for streams that nobody sends", self._end_orphans)
            if number % FORGET_ROUNDS == 0:
                self._try("forget hubs", self._forget)

    def _try(self, what: str, act: Callable[[], object]) -> bool:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - whatever it is: were these threads to end, no stream would go on
            _log.warning(f"could not {what}, trying again", error=str(error))
            return False
        return True

    def _end_orphans(self) -> None:
        """End streams that are this hub's and that nobody sends: the answer to their opening was lost."""
        with self._store.read() as tx:
            sessions = tx.subscriptions.list_sessions(hub_id=self._hub_id)
        found = {(each.subscription, each.id) for each in sessions if each.id not in self._streams}
        for subscription_id, session_id in found & self._orphans:  # Those of one look may be just about to begin.
            self._end(subscription_id, session_id)
        self._orphans = found

    def _forget(self) -> None:
        with self._store.write() as tx:
            tx.subscriptions.sweep(tx.now() - FORGET_US)
