"""Port of batches: uploads and their chunks, and the ledger of the batches of each producer group."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from penstock.storage.statements import SqlRunner

DIGEST_BYTES: Final = 16


class BatchKey(NamedTuple):
    """Identity of a batch, and the query that publishes it."""

    event_type_id: int
    group: str
    """The producer group."""
    number: int
    """Grows from one batch of the group to the next."""
    query: str


class StagedUpload(NamedTuple):
    """Events that one task uploads for a batch."""

    id: int
    batch_id: int | None
    """The batch that the upload is part of; None until that batch is published."""
    group: str
    """The producer group for whose batch it is."""


class ChunkKey(NamedTuple):
    """Identity of a chunk of an upload."""

    upload_id: int
    number: int


class ChunkBody(NamedTuple):
    """Chunk of an upload, with its events."""

    upload_id: int
    number: int
    events: int
    """Number of valid events."""
    body: bytes
    """The valid events, packed."""
    rejected: str | None
    """The lines that are no valid events, as JSON; None if all are valid."""

    @property
    def key(self) -> ChunkKey:
        """The identity of the chunk."""
        return ChunkKey(self.upload_id, self.number)


class StoredChunk(NamedTuple):
    """Chunk of an upload, with the digest of its lines."""

    upload_id: int
    number: int
    events: int
    digest: bytes
    rejected: str | None
    """The lines that are no valid events, as JSON; None if all are valid, or if they were not selected."""


class LockedUpload(NamedTuple):
    """Upload that the transaction has locked, with its chunks by number."""

    id: int
    chunks: Sequence[StoredChunk]


class LedgerBatch(NamedTuple):
    """Batch of a producer group, and how much of it is published."""

    id: int
    number: int
    query: str
    chunks: int
    done: int
    """Number of chunks whose events are in the log."""
    events: int
    """Number of events in the log."""
    rejected: int
    """Number of rejected lines."""
    offsets: str
    """Offsets of the events: by partition, ranges of first and last, as JSON."""
    begun_at: int
    updated_at: int

    @property
    def is_done(self) -> bool:
        """True if the whole batch is in the log."""
        return self.done == self.chunks


class BatchRepository:
    """Uploads that wait to be published, and the ledger of batches.

    A transaction that begins a batch has locked the feed. This implementation locks nothing, as if there were one
    writer at a time.
    """

    def __init__(self, sql: SqlRunner) -> None:
        self._run = sql.run
        self._run_each = sql.run_each

    def open_upload(self, key: BatchKey, name: str, at: int) -> bool:
        """Begin an upload for a batch; return False if the event type no longer exists."""
        return self._run("upload_insert", **key._asdict(), name=name, at=at).rowcount == 1

    def count_uploads(self, event_type_id: int, limit: int) -> int:
        """Return how many uploads of an event type wait, at most *limit*, cheaply."""
        [(count,)] = self._run("uploads_count", event_type_id=event_type_id, limit=limit).fetchall()
        return int(count)

    def find_upload(self, event_type: str, name: str) -> StagedUpload | None:
        """Return the upload of that *name*, or None."""
        rows = self._run("upload_find", event_type=event_type, name=name).fetchall()
        return StagedUpload(*rows[0]) if rows else None

    def drop_upload(self, upload: StagedUpload) -> None:
        """Let `sweep` remove an upload, unless it is part of a batch."""
        self._run("upload_drop", id=upload.id)

    def add_chunk(self, chunk: StoredChunk, body: bytes, at: int) -> StoredChunk | None:
        """Store a chunk and return it; if there is a chunk of that number, return that one.

        None means that the upload is part of a batch or was dropped. It is locked until the transaction ends otherwise.
        """
        if not self._run("upload_touch", id=chunk.upload_id, at=at).rowcount:
            return None
        self._run("chunk_insert", **chunk._asdict(), body=body)
        rows = self._run("chunk_find", upload_id=chunk.upload_id, number=chunk.number).fetchall()
        [(events, digest, rejected)] = rows
        return chunk._replace(events=events, digest=bytes(digest), rejected=rejected)

    def lock_uploads(self, key: BatchKey, names: Collection[str]) -> Mapping[str, LockedUpload]:
        """Return those uploads for a batch that wait, by name, locked until the transaction ends."""
        upload_ids = dict(self._run("uploads_of", **key._asdict(), names=_to_json(names)).fetchall())
        rows = self._run("chunks_of", ids=_to_json(upload_ids.values())).fetchall()
        chunks: defaultdict[int, list[StoredChunk]] = defaultdict(list)
        for upload_id, number, events, digest in rows:
            chunks[upload_id].append(StoredChunk(upload_id, number, events, bytes(digest), None))
        return {name: LockedUpload(upload_id, chunks[upload_id]) for name, upload_id in upload_ids.items()}

    def begin(self, key: BatchKey, at: int, *, upload_ids: Sequence[int], chunks: int) -> None:
        """Begin a batch at *at*, of these locked uploads in this order, which hold *chunks* chunks in all."""
        [(batch_id,)] = self._run("batch_insert", **key._asdict(), chunks=chunks, at=at).fetchall()
        self._run_each("upload_take", [(batch_id, place, at, upload_id) for place, upload_id in enumerate(upload_ids)])

    def list(
        self, event_type_id: int, group: str, *, number: int | None = None, limit: int = 1
    ) -> Sequence[LedgerBatch]:
        """Return up to *limit* batches of a group, newest first; only that of *number* if given."""
        given = {"event_type_id": event_type_id, "group": group, "number": number, "limit": limit}
        return [LedgerBatch(*row) for row in self._run("batches_list", **given).fetchall()]

    def lock(self, batch_ids: Collection[int], partition_ids: Sequence[int]) -> Mapping[int, LedgerBatch]:
        """Return batches, locked until the transaction ends, after locking the event types of *partition_ids*."""
        del partition_ids
        return {row[0]: LedgerBatch(*row) for row in self._run("batches_look", ids=_to_json(batch_ids)).fetchall()}

    def read_chunks(self, batch_id: int, *, limit: int, events_max: int) -> Sequence[ChunkBody]:
        """Return the first chunks of a batch that are not published: as many as have *events_max* events, at least one.

        Return none if another transaction publishes one of them meanwhile.
        """
        found: list[ChunkBody] = []
        for upload_id, number, events in self._run("chunks_next", batch_id=batch_id, limit=limit).fetchall():
            events_max -= events
            if found and events_max < 0:
                break
            rows = self._run("chunk_body", upload_id=upload_id, number=number).fetchall()
            if not rows:
                return ()
            found.append(ChunkBody(upload_id, number, events, bytes(rows[0][0]), rows[0][1]))
        return found

    def advance(self, batch: LedgerBatch, published: Sequence[ChunkKey], at: int) -> None:
        """Record the progress of a locked batch, and delete its *published* chunks."""
        self._run_each("chunk_remove", published)
        given = {"done": batch.done, "events": batch.events, "rejected": batch.rejected, "offsets": batch.offsets}
        self._run("batch_advance", id=batch.id, at=at, **given)
        if batch.is_done:
            self._run("uploads_done", batch_id=batch.id)

    def delete(self, event_type_id: int, group: str) -> int:
        """Delete the published batches of a group and return how many."""
        return self._run("batches_remove", event_type_id=event_type_id, group=group).rowcount

    def sweep(self, before: int, *, idle_before: int, kept: int, uploads: int, chunks: int, batches: int) -> int:
        """Remove some uploads and batches that are not needed, and return about how many; 0 when none is left.

        Args:
            before: Uploads that have waited without a new chunk since then are dropped.
            idle_before: The published batches of a group that has published nothing since then are removed.
            kept: The newest published batches of each group that stay.
            uploads: How many uploads are dropped, and how many dropped ones are removed, at most.
            chunks: How many chunks are removed, at most.
            batches: How many batches are removed, at most.
        """
        swept = self._run("uploads_expire", before=before, limit=uploads).rowcount
        swept += self._run("batches_old", before=idle_before, kept=kept, limit=batches).rowcount
        dropped = [upload_id for (upload_id,) in self._run("uploads_gone", limit=uploads).fetchall()]
        if dropped and self._run("chunks_remove", ids=_to_json(dropped), limit=chunks).rowcount < chunks:
            self._run("uploads_remove", ids=_to_json(dropped))
        return swept + len(dropped)


def _to_json(values: Collection[int] | Collection[str]) -> str:
    return msgspec.json.encode(list(values)).decode()
