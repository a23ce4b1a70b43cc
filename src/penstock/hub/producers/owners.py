"""Owners of producer groups: who was the first to use one in an event type, in all its partitions and batches."""

import time
from collections.abc import Callable
from typing import Final

from penstock.core.access import Claim, Sender
from penstock.errors import AccessDenied
from penstock.storage.store import Store

KEPT_SECONDS: Final = 5.0
"""An owner is read again after this long: it ends with its event type."""
KEPT_MAX: Final = 10_000


class ProducerOwners:
    """The owners of the producer groups of one store. Safe to use from many threads."""

    def __init__(self, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._monotonic = monotonic
        self._known: dict[tuple[str, str], tuple[str, float]] = {}

    def is_known(self, event_type: str, group: str, sender: Sender) -> bool:
        """Return whether *sender* is known to be the owner of a producer group, without a query."""
        owner, until = self._known.get((event_type, group), (None, 0.0))
        return owner == sender.owner and self._monotonic() < until

    def find(self, event_type: str, group: str) -> str | None:
        """Return the owner of a producer group from the database; None if it has none."""
        with self._store.read() as tx:
            return tx.producers.find_owner(event_type, group)

    def check(self, event_type: str, group: str, claim: Claim) -> None:
        """Return if the caller of *claim* may use a producer group; one without an owner is the caller's from here on.

        Raises:
            AccessDenied: it belongs to another caller.
        """
        owner = self.find(event_type, group)
        if owner is None:
            with self._store.write() as tx:
                tx.producers.adopt(event_type, group, claim.owner)
                owner = tx.producers.find_owner(event_type, group)
        if not claim.holds(owner):
            raise AccessDenied.of("not-owner", kind="producer group", name=group)
        if owner == claim.owner:
            if len(self._known) >= KEPT_MAX:
                self._known.clear()
            self._known[event_type, group] = owner, self._monotonic() + KEPT_SECONDS
