"""One publish on its way into the log: prepared for it, queued for the committer, appended.

A request carries events, a numbered batch of an idempotent producer, or a piece of a batch of uploads. Its events are
parsed, validated, partitioned and enriched before the transaction. `lock_heads` and `append_rows` are the bare write:
the offsets are assigned once the heads are locked (docs/decisions/head-rows.md).
"""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Final, Literal, NamedTuple, TypeAlias, TypedDict

import msgspec

from penstock.core.events.event import NewEvent, Row, check_sizes, remove_all_line_breaks
from penstock.core.events.metadata import PUBLISHER, Enrichment, count_extra_bytes
from penstock.core.log.acceptance import ParsedBatch, Partitioner, accept, assign_partitions
from penstock.core.producers import DIGEST_BYTES, OffsetRange, ProducerStamp
from penstock.core.registry.event_type import StoredFeed
from penstock.core.times import format_time
from penstock.errors import (
    Conflict,
    HubUnavailable,
    Invalid,
    InvalidEvent,
    MalformedEvent,
    PartitionNotFound,
    PenstockError,
    PublishingRestricted,
    TooLarge,
)
from penstock.schema.json_text import refuse_duplicate_keys
from penstock.storage.batches import ChunkKey, LedgerBatch
from penstock.storage.log.events import DELETION, Block, PartitionHead
from penstock.storage.log.outbox import OutboxRow
from penstock.storage.producers import ProducerKey
from penstock.storage.store import Tx


class NewEvents(NamedTuple):
    """Events of one publish: all of them are published, or none."""

    events: Sequence[NewEvent] = ()
    lines: Sequence[int] | None = None
    """The numbers by which errors name the events; counted from 1 by default."""
    flow_id: str | None = None
    """The flow id for events whose metadata has none."""
    strict: bool = False
    """True to refuse metadata members that only a hub may write, as Nakadi does, instead of replacing them."""
    deletes: bool = False
    """True if these are tombstones, which delete the earlier events of their keys."""
    partition: int | None = None
    """The partition of all events; an event that the partition strategy assigns elsewhere is refused."""
    validated: bool = False
    """True if they were validated when they were uploaded, so that validation is skipped."""
    published_by: str = PUBLISHER
    """The name of the caller, for the metadata of events that have some."""
    is_own: bool = False
    """True if the hub publishes them itself."""


NOTHING: Final = NewEvents()
OWN_EVENT_TYPES: Final = frozenset(
    [
        "nakadi.access.log",
        "nakadi.audit.log",
        "nakadi.batch.published",
        "nakadi.data.streamed",
        "nakadi.event.type.log",
        "nakadi.subscription.log",
    ]
)
"""Event types whose events come from the hub alone."""


class PublishOptions(TypedDict, total=False):
    """The members of `NewEvents` that callers may set."""

    flow_id: str | None
    strict: bool
    deletes: bool
    partition: int | None
    published_by: str


class Prepared(NamedTuple):
    """Events ready to be appended, as of one revision of their event type."""

    feed: StoredFeed
    events: int
    """The number of events."""
    rows: dict[int, list[Row]]
    """By partition number, in publishing order."""
    partitions: Sequence[int]
    """The partition number of each event."""

    @property
    def partition_ids(self) -> list[int]:
        """The ids of their partitions in the store."""
        return [self.feed.partition_ids[partition] for partition in self.rows]

    def without_first(self, count: int) -> "Prepared":
        """Return these events, all of one partition, without the first *count*."""
        [(partition, rows)] = self.rows.items()
        return self._replace(
            events=self.events - count, rows={partition: rows[count:]}, partitions=self.partitions[count:]
        )


class Unpublishable(NamedTuple):
    """The reason why events cannot be appended, as of one revision of their event type."""

    feed: StoredFeed
    error: PenstockError


Preparation: TypeAlias = Prepared | Unpublishable
"""Events ready to be appended, or the reason why they cannot be."""


def prepare(feed: StoredFeed, handed: NewEvents, now: int, *, explains: bool = True) -> Prepared:
    """Return the events of *handed* ready for the log of *feed*, all of them or none.

    All events are parsed, then validated, then partitioned, then enriched, as in Nakadi; the first failure ends it.
    With *explains* False the error does not explain a violation of the schema, because finding the explanation can take
    much longer than finding the violation.

    Raises:
        MalformedEvent: an event cannot be parsed.
        InvalidEvent, EventTooLarge: an event is not valid; or it has no partition or no key, or belongs to another
            partition than the requested one.
        PartitionNotFound: there is no such partition.
        PublishingRestricted: the event type is not compacted, so it takes no tombstones; or its events come from the
            hub alone.
    """
    _check_source(feed, handed)
    if handed.partition is not None and handed.partition >= feed.partition_count:
        fields = {"event_type": feed.name, "partition": handed.partition, "partition_count": feed.partition_count}
        raise PartitionNotFound(**fields)
    batch = ParsedBatch.parse(handed.events, handed.lines)
    try:
        return _prepare(feed, handed, batch, now, explains=explains)
    finally:
        batch.release()


def _prepare(feed: StoredFeed, handed: NewEvents, batch: ParsedBatch, now: int, *, explains: bool) -> Prepared:
    partitioner = Partitioner(feed.event_type, accepts_keys=not handed.strict, partition=handed.partition)
    has_metadata = feed.event_type.category != "undefined"
    if handed.deletes:
        if not feed.event_type.is_compacted:
            raise PublishingRestricted.of("undeletable-events", event_type=feed.name)
        check_sizes(batch.raws, batch.lines)
        partitions, keys = assign_partitions(feed.event_type, batch, partitioner)
        datas = _enrich(feed, handed, batch, partitions, now)
        rows: Iterable[Row] = ((key, DELETION, None, data) for key, data in zip(keys, datas, strict=True))
        return Prepared(feed, len(datas), _group_by_partition(partitions, rows), partitions)
    accepted = accept(
        feed.event_type,
        batch,
        partitioner,
        strict=handed.strict,
        validated=handed.validated,
        explains=explains,
        extra_bytes=count_extra_bytes(handed.published_by) if has_metadata else 0,
    )
    partitions = accepted.partitions
    if has_metadata and handed.validated:
        _check_metadata(feed, batch)
    datas = _enrich(feed, handed, batch, partitions, now)
    rows = zip(accepted.keys, accepted.kinds, accepted.headers, datas, strict=True)
    return Prepared(feed, len(datas), _group_by_partition(partitions, rows), partitions)


def _enrich(
    feed: StoredFeed, handed: NewEvents, batch: ParsedBatch, partitions: Sequence[int], now: int
) -> list[bytes]:
    """Return the events for the log: without line breaks, with the hub's metadata if their category has metadata."""
    datas = remove_all_line_breaks(batch.raws)
    if feed.event_type.category == "undefined":
        return datas
    enrichment = Enrichment(
        event_type=feed.name,
        version=feed.event_type.schema_version,
        received_at=format_time(now),
        flow_id=handed.flow_id,
        published_by=handed.published_by,
    )
    return list(map(enrichment.complete, datas, batch.decoded, partitions))


def _check_source(feed: StoredFeed, handed: NewEvents) -> None:
    """Raise PublishingRestricted for events of others in an event type of the hub's own."""
    if feed.name in OWN_EVENT_TYPES and not handed.is_own:
        raise PublishingRestricted.of("events-of-the-hub", event_type=feed.name)


def _check_metadata(feed: StoredFeed, batch: ParsedBatch) -> None:
    """Raise InvalidEvent for an event without metadata, validated while its event type required none."""
    for event, line in zip(batch.decoded, batch.lines, strict=True):
        if type(event.get("metadata")) is not dict:
            reason = f"it has no metadata, which events of the category {feed.event_type.category} need"
            raise InvalidEvent(line=line, reason=reason)


def prepare_or_refuse(
    feed: StoredFeed, handed: NewEvents, now: int, *, exact: bool = False, explains: bool = True
) -> Preparation:
    """Return events ready for the log, or the reason why they cannot be appended: see `prepare`.

    Unless they are *exact* (of an idempotent producer, or of a batch), the event type has to accept plain publishes.

    Raises:
        MalformedEvent: an event cannot be parsed.
        PublishingRestricted: the events of the event type come from the hub alone.
    """
    _check_source(feed, handed)
    try:
        if not exact:
            check_plain(feed)
        return prepare(feed, handed, now, explains=explains)
    except MalformedEvent:
        raise
    except (Invalid, TooLarge, Conflict, PartitionNotFound) as error:
        return Unpublishable(feed, error)


def find_refusal(found: Preparation, *, exact: bool) -> PenstockError | None:
    """Return the error that ends a request before the transaction, or None.

    An *exact* request continues even if its events are no longer publishable: they may already be in the log.
    """
    if isinstance(found, Prepared) or (exact and not isinstance(found.error, PartitionNotFound)):
        return None
    return found.error


def _group_by_partition(partitions: Sequence[int], rows: Iterable[Row]) -> dict[int, list[Row]]:
    if len(set(partitions)) == 1:
        return {partitions[0]: list(rows)}
    found: dict[int, list[Row]] = {}
    for partition, row in zip(partitions, rows, strict=True):
        found.setdefault(partition, []).append(row)
    return found


def check_plain(feed: StoredFeed) -> None:
    """Raise PublishingRestricted if the event type refuses plain publishes, which may store an event twice."""
    if feed.event_type.is_exactly_once:
        raise PublishingRestricted(event_type=feed.name)


def parse_headers(text: str | None) -> dict[str, str] | None:
    """Parse the headers of an outbox row, JSON; raise InvalidEvent unless they are an object of strings."""
    if text is None:
        return None
    try:
        headers: dict[str, str] = msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InvalidEvent(line=1, reason=f"its headers are not a JSON object of strings: {error}") from None
    if len(msgspec.json.encode(headers)) < len(raw := text.encode(errors="surrogateescape")):
        refuse_duplicate_keys(raw, 1)
    return headers


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
    """True to append the rest of a batch whose beginning is stored; otherwise that is an error."""

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


class Volume(NamedTuple):
    """How much was appended."""

    events: int
    bytes: int
    """The bytes of the events' data."""


class AppendResult(NamedTuple):
    """The result of a publish."""

    feed: StoredFeed
    events: int
    """How many."""
    next_offsets: dict[int, int]
    """By partition number: the offset just after the last event."""
    produced: ProducerResult | None = None
    """The result of a numbered batch; None for other requests."""
    partitions: Sequence[int] = ()
    """The partition number of each event."""
    seconds: float = 0.0
    """The time that the transaction took, in the proportion of its events; 0 for a request of few events."""

    def split(self, counts: Sequence[int]) -> "list[AppendResult]":
        """Return the results of the publishes that were joined to this one, in their order: of *counts* events each."""
        results: list[AppendResult] = []
        next_offsets, stop = dict(self.next_offsets), self.events
        for count in reversed(counts):
            partitions = self.partitions[stop - count : stop]
            after = {partition: next_offsets[partition] for partition in partitions}
            results.append(self._replace(events=count, next_offsets=after, partitions=partitions))
            for partition in partitions:
                next_offsets[partition] -= 1
            stop -= count
        return results[::-1]


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
        results.append(AppendResult(batch.feed, batch.events, next_offsets, partitions=batch.partitions))
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
        """True if all outbox rows that precede it are in the log."""
        self.future: Future[AppendResult | None] = Future()

    @property
    def events(self) -> int:
        """The number of events that it appends, as far as is known."""
        return self.ready.events if isinstance(self.ready, Prepared) else len(self.handed.events)

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
