"""Port of idempotent producers: the epoch and next sequence number of each, and the batches that it has stored.

Its statements are `produced_*.sql`; `batch_*.sql` are those of uploads.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from penstock.core.producers import EpochEnd, ProducerState, StoredBatch
from penstock.storage.statements import SqlRunner

ProducerKey = tuple[int, str]
"""Partition, by the store's number, and producer group."""


class Producer(NamedTuple):
    """Producer group in one partition."""

    id: int
    partition_id: int
    name: str
    state: ProducerState
    claim_id: str | None
    """Id of the claim that began the epoch; None if an append began it."""
    is_pinned: bool
    """True if the producer is kept however long it is idle."""
    updated_at: int
    """When the epoch began, or when the producer last appended."""


class AppendedBatch(NamedTuple):
    """Batch that the transaction has appended for a producer."""

    producer_id: int
    epoch: int
    stored: StoredBatch


class BatchRef(NamedTuple):
    """Identity of a stored batch of a producer."""

    producer_id: int
    epoch: int
    first: int
    """Sequence number of the first event."""


class BatchWindow(NamedTuple):
    """The stored batches of an epoch."""

    batches: int
    first: int | None
    """Sequence number of the first event of the oldest batch; None if there is none."""
    ending: EpochEnd | None
    """End of the epoch by its last batch; None if there is none."""


class ProducerRepository:
    """Idempotent producers and their stored batches.

    A transaction that changes a producer, or appends for it, has locked it. It inserts a producer only after locking
    the partition's head, so that it never waits for another's insert. This implementation locks nothing, as if there
    were one writer at a time.
    """

    def __init__(self, sql: SqlRunner) -> None:
        self._run = sql.run
        self._run_each = sql.run_each

    def find(
        self, keys: Sequence[ProducerKey], *, lock: Sequence[int] | None = None
    ) -> Mapping[ProducerKey, Producer | None]:
        """Return producers by their keys, None for unknown ones; leave out partitions of dropped event types.

        Args:
            keys: Sorted, if they are locked.
            lock: Lock the producers until the transaction ends, after locking (shared) the event types of these
                partitions. A producer that another transaction inserts meanwhile is left out: look again.
        """
        del lock
        return read_producers(self._run("producers_look", wanted=encode_keys(keys)).fetchall())

    def list(self, partition_id: int, *, after: str, limit: int) -> Sequence[Producer]:
        """Return up to *limit* producers of a partition whose names come after *after*, sorted by name."""
        rows = self._run("producers_list", partition_id=partition_id, after=after, limit=limit).fetchall()
        return [producer for producer in read_producers(rows).values() if producer is not None]

    def list_idle(self, since: int, *, limit: int) -> Sequence[Producer]:
        """Return up to *limit* producers idle since *since* that are neither pinned nor expired."""
        rows = self._run("producers_idle", since=since, limit=limit).fetchall()
        return [producer for producer in read_producers(rows).values() if producer is not None]

    def find_owner(self, event_type: str, group: str) -> str | None:
        """Return the owner of a producer group in all partitions of an event type; None if it has no owner."""
        rows = self._run("producer_owner", event_type=event_type, group=group).fetchall()
        return rows[0][0] if rows else None

    def adopt(self, event_type: str, group: str, owner: str) -> None:
        """Record the owner of a producer group, unless it has one or there is no such event type."""
        self._run("producer_adopt", event_type=event_type, group=group, owner=owner)

    def count(self, partition_id: int) -> int:
        """Return how many producers of a partition have not expired."""
        [(count,)] = self._run("producers_count", partition_id=partition_id).fetchall()
        return int(count)

    def insert(
        self, key: ProducerKey, state: ProducerState, at: int, *, claim_id: str | None, is_pinned: bool
    ) -> int | None:
        """Record a new producer and return its id; None if another transaction has inserted it: lock that one first."""
        partition_id, name = key
        given = {"partition_id": partition_id, "name": name, "claim_id": claim_id, "is_pinned": is_pinned, "at": at}
        rows = self._run("producer_insert", **given, **_state_columns(state)).fetchall()
        return int(rows[0][0]) if rows else None

    def update(self, producer: Producer) -> None:
        """Record the state of a locked producer, but not its next sequence number, which follows from its batches."""
        given = {"claim_id": producer.claim_id, "is_pinned": producer.is_pinned, "at": producer.updated_at}
        self._run("producer_update", id=producer.id, **given, **_state_columns(producer.state))

    def append_batches(self, batches: Iterable[AppendedBatch], at: int) -> None:
        """Record batches that the transaction has appended."""
        rows = [
            (producer_id, epoch, stored.first, stored.end - stored.first, stored.first_offset, at, stored.digests)
            for producer_id, epoch, stored in batches
        ]
        self._run_each("produced_add", rows)

    def list_batches(self, producer_id: int, epoch: int, first: int, stop: int) -> Sequence[StoredBatch]:
        """Return the stored batches that hold any of the numbers from *first* to before *stop*, in their order."""
        rows = self._run("produced_find", producer_id=producer_id, epoch=epoch, first=first, stop=stop).fetchall()
        return [StoredBatch(number, offset, bytes(digests)) for number, offset, digests in rows]

    def find_window(self, producer_id: int, epoch: int) -> BatchWindow:
        """Return how many batches of an epoch are stored, and where they begin and end."""
        rows = self._run("produced_window", producer_id=producer_id, epoch=epoch).fetchall()
        [(batches, first, next_number, last_offset)] = rows
        return BatchWindow(batches, first, EpochEnd(epoch, next_number, last_offset) if batches else None)

    def list_unneeded_batches(self, limit: int, kept: int, before: int = 0) -> Sequence[BatchRef]:
        """Return up to *limit* stored batches that no repeat needs.

        They belong to expired producers or to dropped partitions; or their events were removed, or they were appended
        before *before*, and they are not among the newest *kept* of their producer.
        """
        rows = self._run("produced_gone", rows=limit, kept=kept, before=before).fetchall()
        return [BatchRef(*row) for row in rows]

    def sweep(self, batches: Sequence[BatchRef], before: int) -> int:
        """Delete *batches*, and producers that expired before *before* or whose partition was dropped.

        Producers with stored batches stay. Return how many producers were deleted.
        """
        self._run_each("produced_remove", sorted(batches))  # Sorted, so that two sweepers lock in one order.
        return self._run("producers_forget", before=before).rowcount


def encode_keys(keys: Sequence[ProducerKey]) -> str:
    """Return keys as the statements take them: a JSON array."""
    return msgspec.json.encode(keys).decode()


def read_producers(rows: Iterable[Sequence[Any]]) -> dict[ProducerKey, Producer | None]:
    """Return producers by their keys, from the rows of a statement that selects producers."""
    return {(partition_id, name): _read_producer(partition_id, name, own) for partition_id, name, *own in rows}


def _read_producer(partition_id: int, name: str, row: Sequence[Any]) -> Producer | None:
    producer_id, epoch, begins, *previous, claim_id, is_pinned, is_expired, updated_at, next_, last, appended_at = row
    if producer_id is None:
        return None
    state = ProducerState(
        epoch,
        begins,
        begins if next_ is None else next_,
        last,
        None if previous[0] is None else EpochEnd(*previous),
        bool(is_expired),
    )
    return Producer(
        producer_id, partition_id, name, state, claim_id, bool(is_pinned), max(updated_at, appended_at or 0)
    )


def _state_columns(state: ProducerState) -> dict[str, Any]:
    epoch, next_, last_offset = state.previous or (None, None, None)
    return {
        "epoch": state.epoch,
        "begins": state.begin,
        "previous_epoch": epoch,
        "previous_next": next_,
        "previous_last_offset": last_offset,
        "is_expired": state.is_expired,
    }
