"""One stream of a consumer, from its beginning until nothing of it is left to be done."""

from collections import Counter
from typing import Any

from penstock.client.subscription_batch import SubscriptionBatch
from penstock.core.subscriptions.assignment import Place
from penstock.errors import PenstockError
from penstock.wire.retry import Backoff


class ConsumerSession:
    """What is known of a stream: what was handled of it, what is still worked on, and what is to become of the rest."""

    def __init__(self, id: str, now: float, delay_max: float, *, is_unwanted: bool) -> None:
        self.id = id
        self._delay_max = delay_max
        self._backoffs: dict[type, Backoff] = {}
        self.retry_at: dict[type, float] = {}
        """Before that the hub is not asked again for a step of that kind, which has failed."""
        self.renewed_at = now
        """Since when it has its time to commit."""
        self.pending: Counter[Place] = Counter()
        """How many batches wait for a handler, or have one, by partition."""
        self.handled: list[SubscriptionBatch[Any]] = []
        """What is to be committed."""
        self.failed: dict[Place, float] = {}
        """When partitions are to be given back in which a handler has failed."""
        self.void: set[Place] = set()
        """Partitions of which the hub takes no more commits."""
        self.kept: frozenset[Place] | None = None
        """What was kept when it was given back; None: it was not."""
        self.is_unwanted = is_unwanted
        """Whether it is to end."""
        self.is_told = False
        """Whether whoever reads it was told to end it."""
        self.has_ended = False
        self.is_lost = False
        """Whether the hub takes nothing more of it."""

    @property
    def is_outstanding(self) -> bool:
        """Whether it has to be kept alive."""
        if self.is_lost or (self.has_ended and self.kept is not None and not self.kept):
            return False
        return bool(self.pending or self.handled or self.failed)

    @property
    def is_done(self) -> bool:
        """Whether it can be forgotten."""
        if self.pending or self.handled or not self.has_ended:
            return False
        return self.is_lost or (self.kept is not None and not self.kept)

    def waits(self, kind: type, now: float) -> bool:
        """Tell whether a step of that *kind* has failed, and is not yet to be tried again."""
        return now < self.retry_at.get(kind, now)

    def has_failed(self, kind: type, error: PenstockError, now: float) -> None:
        """Have a step of that *kind* tried again after a pause."""
        backoff = self._backoffs.setdefault(kind, Backoff(self._delay_max))
        self.retry_at[kind] = now + backoff.delay(error)

    def has_succeeded(self, kind: type) -> None:
        """Begin with short pauses again."""
        self._backoffs.pop(kind, None)
        self.retry_at.pop(kind, None)

    def keep(self, now: float) -> frozenset[Place]:
        """Return the partitions that it does not give back yet."""
        if self.is_lost:
            return self.kept or frozenset()
        worked_on = {*self.pending, *(each.place for each in self.handled)} - self.void
        return frozenset(worked_on | {place for place, due in self.failed.items() if due > now})

    def forget(self, place: Place) -> None:
        """Count one batch less of a partition."""
        self.pending[place] -= 1
        if not self.pending[place]:
            del self.pending[place]
