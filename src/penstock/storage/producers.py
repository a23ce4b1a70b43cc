"""What the seam knows of idempotent producers: where the numbers of each have come to, and what lies under them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.core.producers import EpochEnd, ProducerState, StoredBatch

ProducerKey = tuple[int, str]
"""A partition, by the store's number, and a producer group."""


class Producer(NamedTuple):
    """A producer group in one partition."""

    id: int
    partition_id: int
    name: str
    state: ProducerState
    claim_id: str | None
    """Who has claimed its epoch; None: that began with an append."""
    is_pinned: bool
    """Whether it is kept however long nothing is heard of it."""
    updated_at: int
    """When its epoch began, or when it was last appended to."""


class NewBatch(NamedTuple):
    """A batch that has just been appended."""

    producer_id: int
    epoch: int
    stored: StoredBatch


class Batch(NamedTuple):
    """Names a batch."""

    producer_id: int
    epoch: int
    first: int
    """The number of its first event."""


class Window(NamedTuple):
    """How far back the batches of an epoch are known."""

    batches: int
    first: int | None
    """The number of the first event of the oldest; None: there is none."""


class Producers(Protocol):
    """Who publishes idempotently. Whoever changes one, or appends for it, has locked it.

    A new one is inserted only by whoever has locked its partition's head, so that nobody waits for another's insert.
    """

    def look(self, wanted: Sequence[ProducerKey]) -> Mapping[ProducerKey, Producer | None]:
        """Return those of *wanted* whose partition still belongs to an event type; None: never heard of."""

    def lock(
        self, wanted: Sequence[ProducerKey], partition_ids: Sequence[int]
    ) -> Mapping[ProducerKey, Producer | None]:
        """The same, each locked until the transaction ends, after the event types of *partition_ids* (shared).

        *wanted* are sorted. Of those that another transaction has inserted meanwhile nothing is returned: look again.
        """

    def insert(
        self, key: ProducerKey, state: ProducerState, at: int, *, claim_id: str | None, is_pinned: bool
    ) -> int | None:
        """Record a new one and return its id; None: there is one meanwhile, which has to be locked first."""

    def update(self, producer: Producer) -> None:
        """Record what a locked one is now, where its numbers have come to excepted: its batches say that."""

    def append(self, batches: Iterable[NewBatch], at: int) -> None:
        """Record batches that were appended."""

    def batches(self, producer_id: int, epoch: int, first: int, stop: int) -> Sequence[StoredBatch]:
        """Return the batches that hold any of the numbers from *first* up to *stop*, in their order."""

    def ending(self, producer_id: int, epoch: int) -> EpochEnd | None:
        """Return where the numbers of an epoch have come to, by the last batch that is known; None: there is none."""

    def window(self, producer_id: int, epoch: int) -> Window:
        """Return how far back the batches of an epoch are known."""

    def count(self, partition_id: int) -> int:
        """Return how many of a partition are not expired."""

    def list(self, partition_id: int, *, after: str, limit: int) -> Sequence[Producer]:
        """Return up to *limit* of a partition whose names come after *after*, sorted by name."""

    def idle(self, since: int, limit: int) -> Sequence[Producer]:
        """Return up to *limit* that are not pinned and that nothing was heard of *since*, expired ones excepted."""

    def forget(self, before: int) -> int:
        """Remove those that expired *before*, and those of dropped partitions, none of whose batches is left."""

    def gone_batches(self, rows: int, kept: int) -> Sequence[Batch]:
        """Return up to *rows* batches that need not be known: of producers that have expired, of dropped partitions.

        And those whose events are gone, but for the newest *kept* of each producer.
        """

    def forget_batches(self, batches: Sequence[Batch]) -> None:
        """Forget batches, some of which may be forgotten already."""
