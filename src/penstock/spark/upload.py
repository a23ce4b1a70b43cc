"""On executors: a task uploads its rows, which stay invisible until the driver names the upload.

See docs/decisions/staged-batches.md.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from penstock.core.events.event import NewEvent
from penstock.errors import EventTooLarge, InvalidEvent, InvalidRecord
from penstock.spark.publishing import HubBatches, QueryBatch
from penstock.spark.rows import SHOWN_CHARS, EventRows
from penstock.wire.batches import CHUNK_EVENTS_MAX, UploadPart

CHUNK_BYTES: Final = 4 << 20
_encode_lines: Final = msgspec.json.Encoder().encode_lines


@dataclass(frozen=True)
class Uploaded(WriterCommitMessage):
    """The message of a task to the driver."""

    place: int
    """The task's place in the batch."""
    batch: QueryBatch
    part: UploadPart | None
    """Its upload; None: it had no rows, or the batch was begun before."""


class Chunk(NamedTuple):
    """Events that are handed in together."""

    events: list[NewEvent]
    body: bytes


def upload(
    hub: HubBatches, batch: QueryBatch, rows: EventRows, batches: Iterable[pa.RecordBatch], *, rejects: bool
) -> UploadPart | None:
    """Hand in the rows of one task; None where there are none, or the batch was begun before: what it has is settled.

    Raises:
        InvalidRecord: a row is no valid event, and is not to be set apart.
        PenstockError: what the hub answers, or that it has not answered for too long.
    """
    chunks = chunks_of(event for each in batches for event in rows(each))
    first = next(chunks, None)
    if first is None:
        return None
    name = hub.open(batch)
    if name is None:
        return None
    digests, events, number = [], 0, 0
    while first is not None:
        try:
            kept = hub.put(batch.event_type, name, number, first.body, rejects=rejects)
        except (InvalidEvent, EventTooLarge) as error:
            raise _name_row(batch.event_type, first, error.fields, error.detail) from error
        digests.append(bytes.fromhex(kept.digest))
        events, number, first = events + kept.events, number + 1, next(chunks, None)
    return UploadPart(name, number, events, blake2b(b"".join(digests), digest_size=16).hexdigest())


def chunks_of(events: Iterable[NewEvent]) -> Iterator[Chunk]:
    """Yield *events* in chunks of at most `CHUNK_EVENTS_MAX` events and about `CHUNK_BYTES` bytes."""
    waiting: list[NewEvent] = []
    size = 0
    for event in events:
        waiting.append(event)
        size += len(bytes(event.data))
        if len(waiting) == CHUNK_EVENTS_MAX or size >= CHUNK_BYTES:
            yield Chunk(waiting, _encode_lines(waiting))
            waiting, size = [], 0
    if waiting:
        yield Chunk(waiting, _encode_lines(waiting))


def _name_row(event_type: str, chunk: Chunk, fields: dict[str, Any], detail: str) -> InvalidRecord:
    """Return the error that shows the row which a chunk was refused for."""
    line = fields.get("line", 0)
    row = bytes(chunk.events[line - 1].data).decode(errors="backslashreplace") if line else "unknown"
    return InvalidRecord.of(
        "invalid-row", event_type=event_type, reason=fields.get("reason") or detail, row=row[:SHOWN_CHARS]
    )
