"""Events as Spark takes them: Arrow batches, in all columns."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from penstock.errors import MalformedAnswer
from penstock.spark.columns import DATA, HEADERS
from penstock.spark.zeroeventhub.columns import NUMBER, PARTITION
from penstock.wire.log.reader.pages import FeedEvent

BATCH_BYTES: Final = 4 << 20
"""About as much is handed to Spark at once."""
_TYPES: Final = {
    PARTITION: pa.int32(),
    NUMBER: pa.int64(),
    HEADERS: pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())),
    DATA: pa.string(),
}
_SCHEMA: Final = pa.schema([pa.field(name, kind, name == HEADERS) for name, kind in _TYPES.items()])


def to_batches(events: Sequence[FeedEvent], partition: int, first: int, url: str) -> Iterator[pa.RecordBatch]:
    """Yield *events* of a partition in all columns; they are numbered from *first* on.

    Raises:
        MalformedAnswer: one is not text, or has other headers than texts; *url* has sent it.
    """
    begun: list[FeedEvent] = []
    size = 0
    for event in events:
        begun.append(event)
        size += len(event.raw)
        if size >= BATCH_BYTES:
            yield _batch(begun, partition, first, url)
            first += len(begun)
            begun, size = [], 0
    if begun:
        yield _batch(begun, partition, first, url)


def _batch(events: Sequence[FeedEvent], partition: int, first: int, url: str) -> pa.RecordBatch:
    count = len(events)
    try:
        data = pa.array([event.raw for event in events], pa.binary()).cast(pa.string())
        headers = pa.array([list(event.headers.items()) or None for event in events], _TYPES[HEADERS])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        reason = f"an event of partition {partition} is no text, or its headers are none: {error}"
        raise MalformedAnswer(url=url, reason=reason) from error
    numbers = pa.array(range(first, first + count), pa.int64())
    partitions = pa.repeat(pa.scalar(partition, pa.int32()), count)
    return pa.RecordBatch.from_arrays([partitions, numbers, headers, data], schema=_SCHEMA)
