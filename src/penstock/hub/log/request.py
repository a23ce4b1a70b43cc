"""One publish on its way into the log: from the producer, through the committer's queue, into the append.

`Request` carries what a producer hands in: events, a numbered batch of an idempotent producer, or a piece of a staged
batch. `lock_heads` and `append_rows` are the bare write: the offsets are assigned once the heads are locked
(docs/decisions/head-rows.md).
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
from penstock.errors import DeadlinePassed, PenstockError
from penstock.hub.log.publish import NOTHING, NewEvents, Preparation, Prepared
from penstock.storage.outbox import OutboxRow
from penstock.storage.producers import ProducerKey
from penstock.storage.staging import Batch, Chunk
from penstock.storage.store import Block, Head, Tx


class BatchName(NamedTuple):
    """A batch as who publishes it calls it."""

    event_type: str
    group: str
    """The producer group."""
    number: int
    """It grows from one batch of the group to the next."""


class BatchPiece(NamedTuple):
    """Chunks of a batch that go into the log in one transaction."""

    batch: Batch
    """As it is before."""
    chunks: Sequence[Chunk]
    """The first that are not in the log."""
    rejected: Sequence[tuple[OutboxRow, str]]
    """What of them is no valid event, and why."""


Outcome: TypeAlias = Literal["appended", "duplicate", "trimmed"]


class ProducerName(NamedTuple):
    """A producer group in one partition of an event type."""

    event_type: str
    partition: int
    group: str


class NumberedBatch(NamedTuple):
    """Who publishes a batch, and with which numbers."""

    who: ProducerName
    stamp: ProducerStamp
    digests: bytes
    """Of its events, one after the other."""
    trims: bool = False
    """Whether what is not stored is appended, where the beginning is; else nothing is, and that is an error."""

    deadline: float | None = None
    """When it is no use to begin any more, on the monotonic clock; None: it always is."""

    @property
    def events(self) -> int:
        """How many events it has."""
        return len(self.digests) // DIGEST_BYTES


class ProducerResult(NamedTuple):
    """What has become of a batch: all of it is stored, once."""

    outcome: Outcome
    epoch: int
    first: int
    """The number of its first event."""
    last: int
    next: int
    """The number of the producer's next event."""
    ranges: Sequence[OffsetRange]
    """The offsets of its events, in their order."""


def digest_input(event: NewEvent) -> bytes:
    """Return the bytes that an event's digest covers: the event as it was handed in, its key and its headers."""
    if event.key is None and event.headers is None:
        return bytes(event.data)
    return bytes(event.data) + b"\n" + msgspec.json.encode([event.key, event.headers], order="sorted")


class Published(NamedTuple):
    """What a publish has stored."""

    feed: StoredFeed
    events: int
    """How many."""
    next_offsets: dict[int, int]
    """By partition number: the offset just after."""
    produced: ProducerResult | None = None
    """Of a batch that said who publishes it: what became of it."""


def lock_heads(tx: Tx, batches: Iterable[Prepared | None]) -> dict[int, Head]:
    """Lock the heads of all partitions that *batches* go to."""
    partition_ids = sorted({partition_id for batch in batches if batch for partition_id in batch.partition_ids})
    return tx.events.lock_heads(partition_ids) if partition_ids else {}


def is_stale(prepared: Prepared, heads: dict[int, Head]) -> bool:
    """Tell whether the event type is another by now than the one that *prepared* was made for."""
    revision = prepared.feed.revision
    return any(each not in heads or heads[each].revision != revision for each in prepared.partition_ids)


def append_rows(tx: Tx, batches: Sequence[Prepared | None], heads: dict[int, Head], now: int) -> list[Published | None]:
    """Append *batches* in their order, moving *heads* on; return what each has stored."""
    blocks: dict[int, Block] = {}
    results: list[Published | None] = []
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
        results.append(Published(batch.feed, batch.events, next_offsets))
    if blocks:
        tx.events.append(blocks.values())
    return results


Result: TypeAlias = Published | PenstockError | None
"""What a publisher is told: what was stored, or why nothing was; None where there was nothing to store."""


class Request:
    """One publish on its way into the log; without events it only moves the outbox of its event type."""

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
        """Make a request; a *direct* one comes from a caller who may hold the database in a transaction of its own.

        Only one that is exact can be unfit to be appended: it may be there. A *piece* is one of a staged batch.
        """
        self.name = name
        self.handed = handed
        self.ready = ready
        self.direct = direct
        self.stamped = stamped
        self.piece = piece
        self.moves_to: int | None = None
        """The last row that the outbox of its event type had when it was put off, None before: it waits for that."""
        self.moves_until = 0.0
        """How long it waits for that at most."""
        self.moved = False
        """Whether all that was in the outbox before it is in the log."""
        self.future: Future[Published | None] = Future()

    @property
    def is_exact(self) -> bool:
        """Whether it is known if it was appended before."""
        return self.stamped is not None or self.piece is not None

    @property
    def producer_key(self) -> ProducerKey | None:
        """Which producer it is of, where it says that."""
        if self.stamped is None:
            return None
        assert self.ready is not None
        return self.ready.feed.partition_ids[self.stamped.who.partition], self.stamped.who.group

    def take_up(self) -> bool:
        """Tell whether it is to be carried out: not where its publisher has given up, or was told something already."""
        if self.future.done():
            return False
        deadline = self.stamped.deadline if self.stamped else None
        if deadline is not None and time.monotonic() > deadline:
            self.fail(DeadlinePassed(retry_after=1))
            return False
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def tell(self, told: Result) -> None:
        """Tell the publisher what was stored, or why nothing was."""
        if isinstance(told, PenstockError):
            self.fail(told)
            return
        with suppress(InvalidStateError):  # It was told already that nobody could wait for it any longer.
            self.future.set_result(told)

    def fail(self, error: BaseException) -> None:
        """Tell the publisher that nothing of it was stored, or what else *error* says."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)
