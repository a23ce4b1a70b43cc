"""Records the publishers of each event type, to within minutes, for the last 30 days."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from penstock.core.access import Caller
from penstock.hub.background import Clock
from penstock.storage.store import Store

KEPT_US: Final = 30 * 86_400 * 1_000_000
"""Callers that have not published for this long are forgotten."""
NOTE_INTERVAL: Final = 60.0
"""Seconds between two writes; a killed process loses the notes of this time."""
WAITING_MAX: Final = 10_000
"""Maximum number of callers and event types noted between two writes."""


class Publishers:
    """Records the callers that publish to each event type. Safe to use from many threads.

    `note` only stores in memory; the hub's watch calls `record` in the background, so that no publish waits for it.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._seen: dict[tuple[str, Caller], int] = {}
        self._noted_at = time.monotonic()

    def note(self, event_type: str, caller: Caller) -> None:
        """Note that *caller* publishes now."""
        publishes = event_type, caller
        if publishes not in self._seen and len(self._seen) < WAITING_MAX:
            self._seen[publishes] = self._clock()

    def list(self, event_type: str) -> Mapping[str, int]:
        """Return the callers that published in the last 30 days, each with its last time.

        Publishes that other processes have not recorded yet are missing.

        Raises:
            EventTypeNotFound: there is no such event type.
        """
        with self._store.read() as tx:
            created_at = tx.registry.get(event_type).created_at
            found = dict(tx.access.list_publishers(event_type, self._clock() - KEPT_US))
        for (name, caller), at in list(self._seen.items()):
            if name == event_type and at >= created_at:
                found[str(caller)] = max(at, found.get(str(caller), 0))
        return dict(sorted(found.items()))

    def record(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Write the noted callers to the database, unless that was done less than `NOTE_INTERVAL` ago.

        Raises:
            DatabaseUnavailable: it is recorded next time.
        """
        if not self._seen or monotonic() - self._noted_at < NOTE_INTERVAL:
            return
        self._noted_at = monotonic()
        seen, self._seen = self._seen, {}
        try:
            with self._store.write() as tx:
                tx.access.note_publishers(
                    {(name, str(caller)): at for (name, caller), at in seen.items()}, self._clock() - KEPT_US
                )
        except BaseException:
            self._seen = seen | self._seen
            raise
