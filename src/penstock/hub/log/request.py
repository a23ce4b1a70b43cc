"""One publish on its way into the log: from the producer, through the committer's queue, into the append.

A request carries events, a numbered batch of an idempotent producer, or a piece of a staged batch. `lock_heads` and
`append_rows` are the bare write: the offsets are assigned once the heads are locked (docs/decisions/head-rows.md).
"""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from penstock.core.events.event import NewEvent
from penstock.core.producers import DIGEST_BYTES, OffsetRange, ProducerStamp
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import HubUnavailable, PenstockError
from penstock.hub.log.publish import NOTHING, NewEvents, Preparation, Prepared
from penstock.storage.batches import ChunkKey, LedgerBatch
from penstock.storage.log.events import Block, PartitionHead
from penstock.storage.log.outbox import OutboxRow
from penstock.storage.producers import ProducerKey
from penstock.storage.store import Tx


class BatchName(NamedTuple):
    """The name of a batch: event type, producer group and number."""

    event_type: str
    group: str
    """The producer group."""
    number: int
    """Increases from one batch of the group to the next."""


class BatchPiece(NamedTuple):
    """Chunks of a batch that go into the log in one transaction."""

    batch: LedgerBatch
    """The batch before this piece is appended."""
    chunks: Sequence[ChunkKey]
    """The first chunks that are not in the log."""
    rejected: Sequence[tuple[OutboxRow, str]]
    """The invalid lines of these chunks, each with the reason."""


PublishOutcome: TypeAlias = Literal["appended", "duplicate", "trimmed"]


class ProducerName(NamedTuple):
    """A producer group in one partition of an event type."""

    event_type: str
    partition: int
    group: str


class NumberedBatch(NamedTuple):
    """A batch of an idempotent producer, with its sequence numbers."""

    who: ProducerName
    stamp: ProducerStamp
    digests: bytes
    """The digests of its events, one after the other."""
    trims: bool = False
    """Whether to append the rest of a batch whose beginning is stored; otherwise that is an error."""

    deadline: float | None = None
    """The latest start, in seconds of the monotonic clock; None for no limit."""

    @property
    def events(self) -> int:
        """The number of events."""
        return len(self.digests) // DIGEST_BYTES


class ProducerResult(NamedTuple):
    """The result of a numbered batch, all of which is stored once."""

    outcome: PublishOutcome
    epoch: int
    first: int
    """The sequence number of its first event."""
    last: int
    next: int
    """The sequence number of the producer's next event."""
    ranges: Sequence[OffsetRange]
    """The offsets of its events, in their order."""


def digest_input(event: NewEvent) -> bytes:
    """Return the bytes that an event's digest covers: the event as it was published, its key and its headers."""
    if event.key is None and event.headers is None:
        return bytes(event.data)
    return bytes(event.data) + b"\n" + msgspec.json.encode([event.key, event.headers], order="sorted")


class AppendResult(NamedTuple):
    """The result of a publish."""

    feed: StoredFeed
    events: int
    """How many."""
    next_offsets: dict[int, int]
    """By partition number: the offset just after the last event."""
    produced: ProducerResult | None = None
    """The result of a numbered batch; None for other requests."""


def lock_heads(tx: Tx, batches: Iterable[Prepared | None]) -> dict[int, PartitionHead]:
    """Lock the heads of all partitions that *batches* go to."""
    partition_ids = sorted({partition_id for batch in batches if batch for partition_id in batch.partition_ids})
    return tx.log.find_heads(partition_ids, lock=True) if partition_ids else {}


def is_stale(prepared: Prepared, heads: dict[int, PartitionHead]) -> bool:
    """Return whether the event type has changed since *prepared* was made."""
    revision = prepared.feed.revision
    return any(each not in heads or heads[each].revision != revision for each in prepared.partition_ids)


def append_rows(
    tx: Tx, batches: Sequence[Prepared | None], heads: dict[int, PartitionHead], now: int
) -> list[AppendResult | None]:
    """Append *batches* in their order and advance *heads*; return the result of each."""
    blocks: dict[int, Block] = {}
    results: list[AppendResult | None] = []
    for batch in batches:
        if batch is None:
            results.append(None)
            continue
        next_offsets = {}
        for number, ready in batch.rows.items():
            partition_id = batch.feed.partition_ids[number]
            head = heads[partition_id]
            received_at = max(now, head.received_at)
            block = blocks.setdefault(partition_id, Block(partition_id, head.next_offset, received_at, []))
            block.rows.extend(ready)
            heads[partition_id] = head._replace(next_offset=head.next_offset + len(ready), received_at=received_at)
            next_offsets[number] = heads[partition_id].next_offset
        results.append(AppendResult(batch.feed, batch.events, next_offsets))
    if blocks:
        tx.log.append(blocks.values())
    return results


RequestResult: TypeAlias = AppendResult | PenstockError | None
"""The result of a request: what was stored, or why nothing was; None if there was nothing to store."""


class PublishRequest:
    """One publish; without events it only moves the outbox of its event type."""

    def __init__(
        self,
        name: str,
        handed: NewEvents = NOTHING,
        ready: Preparation | None = None,
        *,
        direct: bool = False,
        stamped: NumberedBatch | None = None,
        piece: BatchPiece | None = None,
    ) -> None:
        """Make a request.

        A *direct* request comes from a caller that may hold the database in a transaction of its own. Only an exact
        request may carry `Unpublishable` events, because they may already be stored.
        """
        self.name = name
        self.handed = handed
        self.ready = ready
        self.direct = direct
        self.stamped = stamped
        self.piece = piece
        self.moves_to: int | None = None
        """The id of the last outbox row that has to be moved before this request; None while it is not known."""
        self.moves_until = 0.0
        """The time, on the monotonic clock, after which it fails instead of waiting for the outbox."""
        self.moved = False
        """Whether all outbox rows that precede it are in the log."""
        self.future: Future[AppendResult | None] = Future()

    @property
    def is_exact(self) -> bool:
        """True if the hub can tell that it was appended before: numbered batches and pieces of batches."""
        return self.stamped is not None or self.piece is not None

    @property
    def producer_key(self) -> ProducerKey | None:
        """The key of its producer; None for requests without sequence numbers."""
        if self.stamped is None:
            return None
        assert self.ready is not None
        return self.ready.feed.partition_ids[self.stamped.who.partition], self.stamped.who.group

    def start(self) -> bool:
        """Mark it as running; return False if its publisher has given up, its deadline is over, or it has failed."""
        if self.future.done():
            return False
        deadline = self.stamped.deadline if self.stamped else None
        if deadline is not None and time.monotonic() > deadline:
            self.fail(HubUnavailable.of("deadline-passed", retry_after=1))
            return False
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def resolve(self, result: RequestResult) -> None:
        """Set the result of the future, or fail it if *result* is an error."""
        if isinstance(result, PenstockError):
            self.fail(result)
            return
        with suppress(InvalidStateError):  # It has failed already, when the hub stopped.
            self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Fail the future with *error*, unless it is done."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)
