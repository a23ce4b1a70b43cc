"""Pages as Arrow IPC streams: columns are cut out of joined text by Arrow itself, no event becomes a Python object."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

MEDIA_TYPE: Final = "application/vnd.apache.arrow.stream"
SCHEMA: Final = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("headers", pa.string()),
        pa.field("data", pa.string(), nullable=False),
        pa.field("received_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""`kind` and `headers` are null where the event says none; `headers` is a JSON object."""


def record_batch(
    partition: int,
    start: int,
    count: int,
    *,
    data: bytes,
    keys: bytes | None,
    kinds: bytes | None,
    headers: bytes | None,
    received: bytes | None,
    received_first: int,
    null: bytes,
    kept: list[bool] | None = None,
) -> pa.RecordBatch:
    """Return a batch of events with dense offsets from *start*, from columns whose rows are joined by LF.

    A row that equals *null* stands for none; where *kept* is given, only the rows that it marks are in the batch.
    """
    times = (
        pa.repeat(pa.scalar(received_first, pa.int64()), count)
        if received is None
        else pc.cast(_rows(received), pa.int64())
    )
    columns = [
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        _offsets(start, count),
        _nullable(keys, count, null),
        _nullable(kinds, count, null),
        _nullable(headers, count, null),
        _rows(data),
        times.cast(pa.timestamp("us", tz="UTC")),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return batch if kept is None else batch.filter(pa.array(kept, pa.bool_()))


def stream_start() -> bytes:
    """Return the bytes with which every stream begins: the schema."""
    return _start


def batch_bytes(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as it stands in a stream."""
    return batch.serialize()


STREAM_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The end-of-stream marker of the IPC format."""


def _rows(joined: bytes) -> pa.Array:
    whole = pa.array([joined], pa.binary()).cast(pa.string())
    return pc.split_pattern(whole, "\n").values


def _nullable(joined: bytes | None, count: int, null: bytes) -> pa.Array:
    if joined is None:
        return pa.nulls(count, pa.string())
    rows = _rows(joined)
    return pc.if_else(pc.equal(rows, null.decode()), pa.scalar(None, pa.string()), rows) if null in joined else rows


def _offsets(start: int, count: int) -> pa.Array:
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=start - 1)


def _schema_message() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA):
        pass
    written: bytes = sink.getvalue().to_pybytes()
    return written[: -len(STREAM_END)]


_start: Final = _schema_message()
