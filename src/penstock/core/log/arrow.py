"""Events as record batches of Arrow, which pages and the files of the cold tier have alike.

Arrow builds the columns from joined text, without a Python object for each event. Importing this module loads PyArrow,
which only the extra `arrow` installs.
"""

import struct
from collections.abc import Sequence
from operator import sub
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

RUNS_MAX: Final = 64
"""Up to this number of runs, times are repeated in Python; beyond it in Arrow, whose calls have a fixed cost."""
_TIME: Final = pa.timestamp("us", tz="UTC")
SCHEMA: Final = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("headers", pa.string()),
        pa.field("data", pa.string(), nullable=False),
        pa.field("received_at", _TIME, nullable=False),
    ]
)
"""`kind` and `headers` are null if the event has none; `headers` is a JSON object."""


class JoinedColumns(Protocol):
    """Events by column. Keys, kinds and headers are the rows' values joined by LF; None if no row has one."""

    @property
    def rows(self) -> int:
        """Number of events."""

    @property
    def data(self) -> bytes:
        """The concatenated JSON of the events."""

    @property
    def sizes(self) -> bytes:
        """Size of each event's JSON in bytes: 32-bit integers in native byte order."""

    @property
    def keys(self) -> bytes | None:
        """The keys."""

    @property
    def kinds(self) -> bytes | None:
        """The kinds."""

    @property
    def headers(self) -> bytes | None:
        """The headers, each a JSON object."""

    @property
    def received(self) -> tuple[bytes, bytes]:
        """Runs of events received at one time: the number of events up to each run's end, and its time (µs)."""


def record_batch(
    partition: int, offsets: Sequence[int], joined: JoinedColumns, null: bytes, kept: list[bool] | None = None
) -> pa.RecordBatch:
    """Return a record batch of events with these *offsets*.

    A row equal to *null* has no value. *kept* marks the rows to include; None includes all.
    """
    rows = joined.rows
    nulls = pa.nulls(rows, pa.string())
    columns = [
        _fill(pa.int32(), rows, struct.pack("=i", partition) * rows),
        pa.arange(offsets.start, offsets.stop) if isinstance(offsets, range) else pa.array(offsets, pa.int64()),
        _restore_nulls(joined.keys, nulls, null),
        _restore_nulls(joined.kinds, nulls, null),
        _restore_nulls(joined.headers, nulls, null),
        _data(joined),
        _times(*joined.received),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return batch if kept is None else batch.filter(pa.array(kept, pa.bool_()))


def repeat_batch(partition: int, batch: pa.RecordBatch, null: bytes) -> pa.RecordBatch:
    """Return the events of *batch*, which may be a slice, as `record_batch` makes them: a stream has the same bytes."""
    numbers = _fill(pa.int32(), batch.num_rows, struct.pack("=i", partition) * batch.num_rows)
    columns = [
        _cut_texts(each, null.decode()) if pa.types.is_string(each.type) else _cut_numbers(each)
        for each in batch.columns[1:]
    ]
    return pa.RecordBatch.from_arrays([numbers, *columns], schema=SCHEMA)


def _cut_texts(texts: pa.Array, null: str) -> pa.Array:
    rows, nulls = len(texts), texts.null_count
    if nulls == rows:
        return pa.nulls(rows, pa.string())
    if nulls:
        return pc.if_else(pc.is_null(texts), pa.scalar(None, pa.string()), texts.fill_null(null))
    _, ends, data = texts.buffers()
    ends = pa.Array.from_buffers(pa.int32(), rows + 1, [None, ends], offset=texts.offset)
    first = ends[0].as_py()  # A stream of a slice would have bytes of the rows after it, too.
    data = data.slice(first, ends[rows].as_py() - first) if data else pa.py_buffer(b"")
    return pa.StringArray.from_buffers(rows, pc.subtract(ends, pa.scalar(first, pa.int32())).buffers()[1], data)


def _cut_numbers(numbers: pa.Array) -> pa.Array:
    values = numbers.buffers()[1].slice(8 * numbers.offset, 8 * len(numbers))
    return pa.Array.from_buffers(numbers.type, len(numbers), [None, values])


def _data(joined: JoinedColumns) -> pa.Array:
    sizes = _fill(pa.int32(), joined.rows + 1, struct.pack("=i", 0) + joined.sizes)
    ends = pc.cumulative_sum(sizes)
    assert ends[-1].as_py() == len(joined.data), "the sizes of the events are not those of their data"
    return pa.StringArray.from_buffers(joined.rows, ends.buffers()[1], pa.py_buffer(joined.data))  # Without a copy.


def _rows(joined: bytes) -> pa.Array:
    ends = pa.py_buffer(struct.pack("=2i", 0, len(joined)))
    whole = pa.StringArray.from_buffers(1, ends, pa.py_buffer(joined))  # Without a copy.
    return pc.split_pattern(whole, "\n").values


def _times(ends: bytes, times: bytes) -> pa.Array:
    if ends.count(b"\n") > RUNS_MAX:
        runs = pc.cast(_rows(ends), pa.int32()), pc.cast(_rows(times), pa.int64())
        return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(*runs)).cast(_TIME)
    stops = [0, *map(int, ends.split(b"\n"))]
    lengths = map(sub, stops[1:], stops)
    values = [struct.pack("=q", int(time)) * length for time, length in zip(times.split(b"\n"), lengths, strict=True)]
    return _fill(_TIME, stops[-1], b"".join(values))


def _fill(kind: pa.DataType, rows: int, values: bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(values)])


def _restore_nulls(joined: bytes | None, nulls: pa.Array, null: bytes) -> pa.Array:
    if joined is None:
        return nulls
    rows = _rows(joined)
    return pc.if_else(pc.equal(rows, null.decode()), pa.scalar(None, pa.string()), rows) if null in joined else rows
