"""Batches: tasks upload events in chunks, and the driver publishes the uploads of its successful tasks once.

Readers do not see an upload. The driver names the uploads that make up the batch; the others expire. The ledger
records each batch by event type, producer group and number, inside the append transactions. A chunk with an invalid
event is refused, unless the publisher asks the hub to set invalid events apart. docs/decisions/staged-batches.md
gives the reasons.

Invariants:
    A batch keeps the uploads that it was begun with, and each event of them is appended once.
    The batch numbers of a group increase, and a batch is published to its end before the next one begins.
    Events are validated when they are uploaded, and published even if the event type's schema has changed since.
    They get their partition and metadata at upload, too, and again if the event type changes before they are published.
    A batch is locked before it is judged, and before producers and the heads of partitions are locked.
    A chunk is appended in the transaction that marks it as done, so it is appended once, however many publishers try.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec

from penstock.core.access import Attribute, Sender
from penstock.core.events.event import NewEvent, Row
from penstock.core.events.metadata import PUBLISHER
from penstock.core.registry.event_type import StoredFeed
from penstock.core.times import format_time
from penstock.errors import (
    BatchNotFound,
    BatchRefused,
    DatabaseUnavailable,
    EventTypeNotFound,
    Invalid,
    LimitReached,
    NotFound,
    OutcomeUnknown,
    PenstockError,
    TooLarge,
)
from penstock.hub.background import Clock
from penstock.hub.batches.ledger import find_batch, key_of, load_batch
from penstock.hub.changes import AuditedChange, record_change
from penstock.hub.log.publish import (
    AppendResult,
    BatchName,
    BatchPiece,
    NewEvents,
    Preparation,
    Prepared,
    PublishRequest,
    prepare,
    prepare_or_refuse,
)
from penstock.storage.batches import DIGEST_BYTES, BatchKey, ChunkBody, LedgerBatch, StagedUpload, StoredChunk
from penstock.storage.log.outbox import OutboxRow
from penstock.storage.store import Store, Tx

_WRONG = (Invalid, TooLarge, NotFound)


class InvalidUploadLine(msgspec.Struct, frozen=True):
    """A line that is not a valid event."""

    line: int
    reason: str
    data: str
    key: str | None = None
    headers: dict[str, str] | None = None
    partition: int | None = None


def separate_invalid(feed: StoredFeed, handed: NewEvents, now: int) -> tuple[NewEvents, Sequence[InvalidUploadLine]]:
    """Separate valid events from invalid ones; check them one by one only if there is an invalid one."""
    try:
        prepare(feed, handed, now)
    except _WRONG:
        pass
    else:
        return handed, ()
    numbers = handed.lines or range(1, len(handed.events) + 1)
    valid, rejected = [], []
    for number, event in zip(numbers, handed.events, strict=True):
        try:
            prepare(feed, handed._replace(events=[event], lines=[number]), now)
        except _WRONG as error:
            text = bytes(event.data).decode(errors="backslashreplace")
            rejected.append(InvalidUploadLine(number, _reason(error), text, event.key, event.headers, event.partition))
        else:
            valid.append((number, event))
    return handed._replace(events=[event for _, event in valid], lines=[number for number, _ in valid]), rejected


def _reason(error: PenstockError) -> str:
    reason: str = error.fields.get("reason") or error.detail
    return reason


UPLOADS_MAX: Final = 10_000
"""The limit of uploads that wait, for each event type."""
CHUNKS_LOOKED_AT: Final = 64
ATTEMPTS_MAX: Final = 10
_Given = tuple[str | None, dict[str, str] | None, int | None]


class PackedChunk(msgspec.Struct, array_like=True, frozen=True):
    """The valid events of a chunk, as they are stored until their batch is published: ready for the log.

    They are prepared again if the event type has changed since, so that its partitions are the current ones.
    """

    revision: int
    """The revision of the event type that they were prepared for."""
    rows: dict[int, list[Row]]
    """By partition number, in the order in which they were handed in."""
    given: list[_Given] | None
    """The key, headers and partition that came with each event, in the order of `rows`; None: nothing came with any."""

    @classmethod
    def of(cls, handed: NewEvents, prepared: Prepared) -> "PackedChunk":
        """Return the chunk of *handed* events, once they are *prepared*."""
        given = None
        if any(each.key is not None or each.headers or each.partition is not None for each in handed.events):
            ordered = sorted(zip(prepared.partitions, handed.events, strict=True), key=lambda each: each[0])
            given = [(event.key, event.headers, event.partition) for _, event in ordered]
        return cls(prepared.feed.revision, dict(sorted(prepared.rows.items())), given)

    def events(self) -> Sequence[NewEvent]:
        """Return the events, to be prepared again."""
        datas = [msgspec.Raw(row[3]) for rows in self.rows.values() for row in rows]
        if self.given is None:
            return list(map(NewEvent, datas))
        return [NewEvent(data, *given) for data, given in zip(datas, self.given, strict=True)]


_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(PackedChunk).decode
_rejects: Final = msgspec.json.Decoder(list[InvalidUploadLine]).decode


class UploadManifest(NamedTuple):
    """An upload as the task that sent it describes it."""

    name: str
    chunks: int
    events: int
    """The number of valid events."""
    digest: bytes
    """The digest of the digests of its chunks, one after the other."""


class BatchOutcome(NamedTuple):
    """The outcome of publishing a batch."""

    batch: LedgerBatch
    appended: int
    """The number of events appended by this call; 0 if the batch was published before."""


def digest_of(data: bytes) -> bytes:
    """Return the digest of a chunk's body, or of the digests of chunks."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


class Batches:
    """The uploads and the batches of one store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        load: Callable[[str], StoredFeed],
        submit: "Callable[[PublishRequest], Future[AppendResult | None]]",
    ) -> None:
        """*load* returns the current definition of an event type, *submit* queues a request for the committer."""
        self._store = store
        self._clock = clock
        self._load = load
        self._submit = submit

    def open(self, name: BatchName, query: str) -> str | LedgerBatch:
        """Begin an upload for a batch and return its name; return the batch if it was begun already.

        Raises:
            EventTypeNotFound: there is no such event type.
            BatchFenced, BatchRefused: see `ledger.find_batch`.
            LimitReached: too many uploads wait.
        """
        feed = self._load(name.event_type)
        with self._store.read() as tx:
            batch = find_batch(tx, feed, name, query)
            if batch is None and tx.batches.count_uploads(feed.id, UPLOADS_MAX) == UPLOADS_MAX:
                raise LimitReached.of("too-many-uploads", event_type=feed.name, limit=UPLOADS_MAX)
        if batch is not None:
            return batch
        upload = str(uuid4())
        with self._store.write() as tx:
            if not tx.batches.open_upload(key_of(feed, name, query), upload, self._clock()):
                raise EventTypeNotFound(event_type=name.event_type)
        return upload

    def add(
        self, event_type: str, name: str, number: int, handed: NewEvents, digest: bytes, *, rejects: bool
    ) -> tuple[StoredChunk, Sequence[InvalidUploadLine]]:
        """Store a chunk of an upload and return it; repeating the call stores nothing more.

        With *rejects*, invalid lines are set apart and returned instead of refusing the chunk.

        Raises:
            EventTypeNotFound, BatchNotFound: there is no such event type or upload.
            InvalidEvent, EventTooLarge, PartitionNotFound: an event is not valid.
            BatchRefused: the upload is already part of a batch.
            BatchRefused: another chunk is stored under this number.
        """
        feed, upload = self._load(event_type), self.find_upload(event_type, name)
        rejected: Sequence[InvalidUploadLine] = ()
        if rejects:
            handed, rejected = separate_invalid(feed, handed, self._clock())
        packed = _pack(PackedChunk.of(handed, prepare(feed, handed, self._clock())))
        invalid = msgspec.json.encode(rejected).decode() if rejected else None
        with self._store.write() as tx:
            chunk = StoredChunk(upload.id, number, len(handed.events), digest, invalid)
            kept = tx.batches.add_chunk(chunk, packed, self._clock())
            if kept is None:
                raise BatchRefused.of("upload-taken", event_type=event_type, upload=name)
        if kept.digest != digest:
            raise BatchRefused.of("chunk-differs", event_type=event_type, upload=name, chunk=number)
        return kept, _rejects(kept.rejected) if kept.rejected else ()

    def drop(self, event_type: str, name: str) -> None:
        """Delete an upload, unless it is part of a batch.

        Raises:
            BatchNotFound: there is no such upload.
        """
        upload = self.find_upload(event_type, name)
        with self._store.write() as tx:
            tx.batches.drop_upload(upload)

    def find_upload(self, event_type: str, name: str) -> StagedUpload:
        """Return the upload of that name.

        Raises:
            BatchNotFound: there is no such upload.
        """
        upload = None
        if name.isprintable():  # PostgreSQL refuses to look for other texts.
            with self._store.read() as tx:
                upload = tx.batches.find_upload(event_type, name)
        if upload is None:
            raise BatchNotFound.of("upload-not-found", event_type=event_type, upload=name)
        return upload

    def publish(self, name: BatchName, query: str, parts: Sequence[UploadManifest]) -> BatchOutcome:
        """Publish a batch of the uploads *parts*, or of those with which it was begun before; store each event once.

        Up to the store's `batch_events_max` events become visible at once, a larger batch piece by piece. Safe to
        repeat, also concurrently.

        Raises:
            EventTypeNotFound, BatchNotFound: there is no such event type or upload.
            BatchFenced, BatchRefused: see `ledger.find_batch`.
            BatchRefused: an upload differs from its description.
            InvalidEvent: the partition strategy has changed, and the new one refuses an event.
            DatabaseUnavailable, HubUnavailable: the batch may not be complete; repeat the call.
        """
        try:
            batch = self._find_or_begin(name, query, parts)
        except OutcomeUnknown as error:
            raise DatabaseUnavailable(reason=error.reason, retry_after=1) from error
        attempts = appended = 0
        while not batch.is_done:
            if attempts == ATTEMPTS_MAX:
                raise DatabaseUnavailable(reason="the batch makes no progress", retry_after=1)
            before = batch
            batch, events = self._append_next(name, batch)
            appended += events
            attempts = 0 if batch.done > before.done else attempts + 1
        return BatchOutcome(batch, appended)

    def get_batch(self, name: BatchName) -> LedgerBatch:
        """Return a batch from the ledger.

        Raises:
            EventTypeNotFound, BatchNotFound: there is no such event type or batch.
        """
        feed = self._load(name.event_type)
        with self._store.read() as tx:
            return load_batch(tx, feed.id, name)

    def list_batches(self, event_type: str, group: str, limit: int) -> Sequence[LedgerBatch]:
        """Return up to *limit* batches of a producer group, newest first.

        Raises:
            EventTypeNotFound: there is no such event type.
        """
        feed = self._load(event_type)
        with self._store.read() as tx:
            return tx.batches.list(feed.id, group, limit=limit)

    def forget(self, event_type: str, group: str, by: Sender | None = None) -> int:
        """Delete the published batches of a group, so that another query may use the group; return their number.

        Raises:
            EventTypeNotFound: there is no such event type.
        """
        feed = self._load(event_type)
        with self._store.write() as tx:
            count = tx.batches.delete(feed.id, group)
            if count:
                shown = {"event_type": event_type, "group": group, "batches": count}
                record_change(tx, AuditedChange("batches", group, shown, None), by, self._clock())
        return count

    def _find_or_begin(self, name: BatchName, query: str, parts: Sequence[UploadManifest]) -> LedgerBatch:
        with self._store.write() as tx:
            locked = tx.registry.find(name.event_type, lock=True)
            if locked is None:
                raise EventTypeNotFound(event_type=name.event_type)
            batch = find_batch(tx, locked, name, query)
            if batch is not None:
                return batch
            key = key_of(locked, name, query)
            upload_ids = _lock_uploads(tx, name.event_type, key, parts)
            chunks = sum(part.chunks for part in parts)
            tx.batches.begin(key, self._clock(), upload_ids=upload_ids, chunks=chunks)
            return load_batch(tx, locked.id, name)

    def _append_next(self, name: BatchName, batch: LedgerBatch) -> BatchOutcome:
        """Append the next piece of a batch, unless another publisher does, and return the state of the batch."""
        feed = self._load(name.event_type)
        with self._store.read() as tx:
            current = load_batch(tx, feed.id, name)
            request = None if current.done > batch.done else self._plan_request(tx, feed, name.group, current)
        if request is None:
            return BatchOutcome(current, 0)
        published = None
        with suppress(OutcomeUnknown):  # The ledger knows the outcome.
            published = self._submit(request).result()
        return BatchOutcome(self.get_batch(name), published.events if published else 0)

    def _plan_request(self, tx: Tx, feed: StoredFeed, group: str, batch: LedgerBatch) -> PublishRequest | None:
        """Return a request for the next piece of a batch; None if another publisher has appended it meanwhile."""
        chunks = tx.batches.read_chunks(batch.id, limit=CHUNKS_LOOKED_AT, events_max=self._store.batch_events_max)
        if not chunks:
            return None
        owner = tx.producers.find_owner(feed.name, group)
        published_by = PUBLISHER if owner is None else Attribute.parse(owner).value
        return _make_request(feed, batch, chunks, self._clock(), published_by)


def _make_request(
    feed: StoredFeed, batch: LedgerBatch, chunks: Sequence[ChunkBody], now: int, published_by: str
) -> PublishRequest:
    packed = [_unpack(chunk.body) for chunk in chunks]
    rejected = [
        (_make_rejected_row(feed, each, batch), each.reason)
        for chunk in chunks
        for each in (_rejects(chunk.rejected) if chunk.rejected else ())
    ]
    prepared: Preparation
    if all(each.revision == feed.revision for each in packed):
        prepared = _join(feed, packed)
    else:
        events = [event for each in packed for event in each.events()]
        handed = NewEvents(events, validated=True, published_by=published_by)
        prepared = prepare_or_refuse(feed, handed, now, exact=True)
    return PublishRequest(feed.name, ready=prepared, piece=BatchPiece(batch, [chunk.key for chunk in chunks], rejected))


def _join(feed: StoredFeed, packed: Sequence[PackedChunk]) -> Prepared:
    """Return the events of several chunks, one chunk after the other."""
    rows: dict[int, list[Row]] = {}
    for each in packed:
        for partition, more in each.rows.items():
            rows.setdefault(partition, []).extend(more)
    return Prepared(feed, sum(map(len, rows.values())), rows, ())


def _make_rejected_row(feed: StoredFeed, reject: InvalidUploadLine, batch: LedgerBatch) -> OutboxRow:
    headers = None if reject.headers is None else msgspec.json.encode(reject.headers).decode()
    at = format_time(batch.begun_at)
    return OutboxRow(0, feed.name, reject.data, reject.key, headers, reject.partition, at)


def _lock_uploads(tx: Tx, event_type: str, key: BatchKey, parts: Sequence[UploadManifest]) -> Sequence[int]:
    """Check the uploads of *parts* against their descriptions, lock them, and return their ids."""
    held = tx.batches.lock_uploads(key, [part.name for part in parts])
    for part in parts:
        if part.name not in held:
            raise BatchNotFound.of("upload-not-found", event_type=event_type, upload=part.name)
        if reason := _find_difference(part, held[part.name].chunks):
            raise BatchRefused.of("upload-incomplete", event_type=event_type, upload=part.name, reason=reason)
    if len(held) < len(parts):
        raise BatchRefused.of(
            "upload-incomplete", event_type=event_type, upload=parts[0].name, reason="an upload is named twice"
        )
    return [held[part.name].id for part in parts]


def _find_difference(part: UploadManifest, chunks: Sequence[StoredChunk]) -> str | None:
    """Return the difference between an upload and its description *part*, or None."""
    numbers = [each.number for each in chunks]
    if numbers != list(range(part.chunks)):
        return f"it has the chunks {numbers[:20]}, and there should be {part.chunks}, counted from 0"
    if (events := sum(each.events for each in chunks)) != part.events:
        return f"it has {events} valid events, and there should be {part.events}"
    if digest_of(b"".join(each.digest for each in chunks)) != part.digest:
        return "its chunks have other lines than those that were meant"
    return None
