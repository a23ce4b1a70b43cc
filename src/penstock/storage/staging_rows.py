"""Uploads and batches, in either database."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from penstock.storage.staging import Batch, BatchKey, Chunk, Kept, Upload
from penstock.storage.statements import Statements


class SqlStaging:
    """See `penstock.storage.staging.Staging`; nothing is locked here, as if there were one writer at a time."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements.run
        self._run_each = statements.run_each

    def open(self, key: BatchKey, name: str, at: int) -> bool:
        """See `Staging.open`."""
        return self._run("upload_insert", **key._asdict(), name=name, at=at).rowcount == 1

    def count(self, event_type_id: int, limit: int) -> int:
        """See `Staging.count`."""
        [(found,)] = self._run("uploads_count", event_type_id=event_type_id, limit=limit).fetchall()
        return int(found)

    def find(self, event_type: str, name: str) -> Upload | None:
        """See `Staging.find`."""
        found = self._run("upload_find", event_type=event_type, name=name).fetchall()
        return Upload(*found[0]) if found else None

    def touch(self, upload: Upload, at: int) -> bool:
        """See `Staging.touch`."""
        return self._run("upload_touch", id=upload.id, at=at).rowcount == 1

    def add(self, chunk: Kept, body: bytes) -> Kept:
        """See `Staging.add`."""
        self._run("chunk_insert", **chunk._asdict(), body=body)
        found = self._run("chunk_find", upload_id=chunk.upload_id, number=chunk.number).fetchall()
        [(events, digest, rejected)] = found
        return chunk._replace(events=events, digest=bytes(digest), rejected=rejected)

    def hold(self, key: BatchKey, names: Collection[str]) -> Mapping[str, int]:
        """See `Staging.hold`."""
        return dict(self._run("uploads_of", **key._asdict(), names=_json(names)).fetchall())

    def chunks(self, upload_ids: Collection[int]) -> Sequence[Kept]:
        """See `Staging.chunks`."""
        found = self._run("chunks_of", ids=_json(upload_ids)).fetchall()
        return [Kept(upload_id, number, events, bytes(digest), None) for upload_id, number, events, digest in found]

    def begin(self, key: BatchKey, upload_ids: Sequence[int], chunks: int, at: int) -> None:
        """See `Staging.begin`."""
        batch_id = self._begun(key, chunks, at)
        self._run_each("upload_take", [(batch_id, place, at, upload_id) for place, upload_id in enumerate(upload_ids)])

    def begin_direct(self, key: BatchKey, partitions: int, epoch: int, at: int) -> None:
        """See `Staging.begin_direct`."""
        self._begun(key, 1, at, partitions, epoch)

    def batch(self, event_type_id: int, group: str, number: int | None = None) -> Batch | None:
        """See `Staging.batch`."""
        found = self._run("batch_find", event_type_id=event_type_id, group=group, number=number).fetchall()
        return Batch(*found[0]) if found else None

    def batches(self, event_type_id: int, group: str, limit: int) -> Sequence[Batch]:
        """See `Staging.batches`."""
        found = self._run("batches_list", event_type_id=event_type_id, group=group, limit=limit).fetchall()
        return [Batch(*row) for row in found]

    def lock(self, batch_ids: Collection[int], partition_ids: Sequence[int]) -> Mapping[int, Batch]:
        """See `Staging.lock`."""
        del partition_ids
        return {row[0]: Batch(*row) for row in self._run("batches_look", ids=_json(batch_ids)).fetchall()}

    def next(self, batch_id: int, limit: int) -> Sequence[Chunk]:
        """See `Staging.next`."""
        return [Chunk(*row) for row in self._run("chunks_next", batch_id=batch_id, limit=limit).fetchall()]

    def body(self, chunk: Chunk) -> tuple[bytes, str | None] | None:
        """See `Staging.body`."""
        found = self._run("chunk_body", upload_id=chunk.upload_id, number=chunk.number).fetchall()
        return (bytes(found[0][0]), found[0][1]) if found else None

    def advance(self, batch: Batch, published: Sequence[Chunk], at: int) -> None:
        """See `Staging.advance`."""
        self._run_each("chunk_remove", [(chunk.upload_id, chunk.number) for chunk in published])
        told = {"done": batch.done, "events": batch.events, "rejected": batch.rejected, "offsets": batch.offsets}
        self._run("batch_advance", id=batch.id, at=at, **told)
        if batch.is_done:
            self._run("uploads_done", batch_id=batch.id)

    def drop(self, upload: Upload) -> None:
        """See `Staging.drop`."""
        self._run("upload_drop", id=upload.id)

    def expire(self, before: int, limit: int) -> int:
        """See `Staging.expire`."""
        return self._run("uploads_expire", before=before, limit=limit).rowcount

    def remove(self, uploads: int, chunks: int) -> int:
        """See `Staging.remove`."""
        ids = [upload_id for (upload_id,) in self._run("uploads_gone", limit=uploads).fetchall()]
        if ids and self._run("chunks_remove", ids=_json(ids), limit=chunks).rowcount < chunks:
            self._run("uploads_remove", ids=_json(ids))
        return len(ids)

    def forget(self, event_type_id: int, group: str, *, unfinished: bool) -> int:
        """See `Staging.forget`."""
        told = {"event_type_id": event_type_id, "group": group, "unfinished": unfinished}
        return self._run("batches_remove", **told).rowcount

    def forget_old(self, kept: int, limit: int) -> int:
        """See `Staging.forget_old`."""
        return self._run("batches_old", kept=kept, limit=limit).rowcount

    def _begun(
        self, key: BatchKey, chunks: int, at: int, partitions: int | None = None, epoch: int | None = None
    ) -> int:
        told = {"chunks": chunks, "at": at, "partitions": partitions, "epoch": epoch}
        [(batch_id,)] = self._run("batch_insert", **key._asdict(), **told).fetchall()
        return int(batch_id)


def _json(values: Collection[int] | Collection[str]) -> str:
    return msgspec.json.encode(list(values)).decode()
