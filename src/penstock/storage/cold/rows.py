"""Events of files in the shapes of the log: by column, and joined to lines."""

import pyarrow as pa
import pyarrow.compute as pc

from penstock.cold.parquet import buffer_of, data_of
from penstock.storage.log.events import NONE, Frame, KindFilter, ReceiveTimes, StoredColumns, StoredLines


def to_columns(batch: pa.RecordBatch, stop: int, separator: str) -> StoredColumns:
    """Return rows as `StoredColumns` of a range that ends at *stop*, with *separator* between their data."""
    data = batch.column("data")
    keys, kinds, headers = (_join(batch.column(name)) for name in ("key", "kind", "headers"))
    received = _runs_of(batch.column("received_at"))
    joined = bytes(_join_buffer(data, separator)) if separator and len(data) else data_of(data)
    return StoredColumns(stop, batch.num_rows, joined, _sizes_of(data), keys, kinds, headers, received)


def to_lines(batch: pa.RecordBatch, stop: int, frame: Frame, kinds: KindFilter | None) -> StoredLines:
    """Return rows as `StoredLines` of a range that ends at *stop*."""
    data = batch.column("data")
    if kinds is not None:
        names = pc.ascii_lower(batch.column("kind").fill_null(kinds.default))
        found = pc.is_in(names, value_set=pa.array(sorted(kinds.kinds), pa.string()))
        data = data.filter(pc.invert(found) if kinds.skip else found)
    if not len(data):
        return StoredLines(stop, batch.num_rows, 0, b"")
    body = b"".join([frame.prefix.encode(), _join_buffer(data, frame.separator), frame.suffix.encode()])
    return StoredLines(stop, batch.num_rows, len(data), body)


def _sizes_of(texts: pa.Array) -> bytes:
    return buffer_of(pc.binary_length(texts), 4)


def _join(texts: pa.Array) -> bytes | None:
    """Return texts joined by LF, with `NONE` for null; None if all are null."""
    if texts.null_count == len(texts):
        return None
    return bytes(_join_buffer(texts.fill_null(NONE.decode()), "\n"))


def _join_buffer(texts: pa.Array, separator: str) -> pa.Buffer:
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return pc.binary_join(whole, separator)[0].as_buffer()


def _runs_of(times: pa.Array) -> ReceiveTimes:
    if not len(times):
        return ReceiveTimes(b"", b"")
    runs = pc.run_end_encode(times.cast(pa.int64()))
    return ReceiveTimes(
        *(b"\n".join([b"%d" % each for each in part.to_pylist()]) for part in (runs.run_ends, runs.values))
    )
