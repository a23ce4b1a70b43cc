"""Files of a cold tier: events in Parquet, as `docs/reference/cold-tier.md` describes them.

A file has the events of a range of one partition in the order of their offsets. Columns are those of Arrow pages:
`data` holds the events byte for byte. Typed columns may follow, which are made of `data`. The file's metadata say what
it holds, so that a hub can be rebuilt from files alone.
"""

import hashlib
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.cold.description import FileContent, FileDescription
from penstock.core.log.arrow import SCHEMA
from penstock.typed import RESCUED, TYPED
from penstock.typed.decoding import TypedDecoder

TYPED_LEAVES_MAX: Final = 1_000
"""Events with more members than that get no typed columns: a footer has to be read for each page of a feed."""
GROUP_ROWS: Final = 16_384
GROUP_BYTES: Final = 4 << 20
"""A row group ends with the first chunk that reaches one of these: so much is decoded to read a page."""
METADATA: Final = b"penstock"
"""The key of the file's metadata whose value is a `FileDescription` in JSON."""
_DICTIONARIES: Final = ("partition", "kind", "headers")
_STATISTICS: Final = ("partition", "offset", "key", "kind", "received_at")
_ENCODINGS: Final[dict[str, Any]] = {
    "compression": "zstd",
    "compression_level": 3,
    "column_encoding": {"offset": "DELTA_BINARY_PACKED", "received_at": "DELTA_BINARY_PACKED"},
    "write_page_checksum": True,
    "store_schema": True,
    "version": "2.6",
}


class DamagedFileError(Exception):
    """A file does not hold what it should."""


class FileWriter:
    """Writes one file in memory, row group by row group."""

    def __init__(self, typed: pa.StructType | None = None) -> None:
        """Write typed columns of a type, too, if one is given that has members, and not too many."""
        self._decode = None
        schema, leaves = SCHEMA, [] if typed is None else [*_leaf_paths(typed, TYPED)]
        if typed is not None and 0 < len(leaves) <= TYPED_LEAVES_MAX:
            self._decode = TypedDecoder(typed, rescues=True)
            schema = pa.schema([*SCHEMA, pa.field(TYPED, typed), pa.field(RESCUED, pa.string())])
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            use_dictionary=[*_DICTIONARIES, *leaves],
            write_statistics=[*_STATISTICS, *leaves],
            **_ENCODINGS,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._check = _ContentCheck()

    @property
    def data_bytes(self) -> int:
        """The size of the data so far."""
        return self._check.data_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        """Add events, as a batch of `SCHEMA`."""
        for start in range(0, batch.num_rows, GROUP_ROWS):
            self._add(batch.slice(start, GROUP_ROWS))

    def finish(self, description: FileDescription) -> tuple[pa.Buffer, FileContent]:
        """Return the file and a summary of its events."""
        self._flush()
        self._writer.add_key_value_metadata({METADATA: msgspec.json.encode(description)})
        self._writer.close()
        return self._sink.getvalue(), self._check.finish()

    def _add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if self._rows + batch.num_rows > GROUP_ROWS:
            self._flush()
        self._check.add(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._decode is not None:
            typed, rescued = self._decode(batch.column("data"))
            batch = batch.append_column(TYPED, typed).append_column(RESCUED, rescued)
        self._waiting.append(batch)
        if self._bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=self._rows)
        self._waiting, self._rows, self._bytes = [], 0, 0


class ColdFile:
    """A file that is open for reading. Safe to use from many threads."""

    def __init__(self, source: pa.NativeFile) -> None:
        """Read the footer of *source*.

        Raises:
            DamagedFileError: it is no such file.
        """
        try:
            self._file = pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=True)
            metadata = self._file.metadata.metadata or {}
            self.description = msgspec.json.decode(metadata[METADATA], type=FileDescription)
            self.typed_type = self._find_typed_type(self._file.schema_arrow)
            groups = range(self._file.num_row_groups)
            self._firsts = [int(self._find_statistics(group, "offset").min) for group in groups]
            self._latest = [self._find_statistics(group, "received_at").max for group in groups]
        except KeyError:
            raise DamagedFileError("it is a Parquet file, but not of a cold tier") from None
        except (pa.ArrowException, msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
            raise _explain(error) from error
        self.group_count = self._file.num_row_groups
        self._reading = threading.Lock()

    def find_group(self, offset: int) -> tuple[int, int]:
        """Return the row group for an offset of the file's range, and the offset at which the next one begins."""
        group = max(0, bisect_left(self._firsts, offset + 1) - 1)
        is_last = group + 1 >= self.group_count
        return group, self.description.stop if is_last else self._firsts[group + 1]

    def find_group_since(self, at: int) -> int | None:
        """Return the first row group with events that were received at *at*, in microseconds, or later."""
        since = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
        return next((group for group, latest in enumerate(self._latest) if latest >= since), None)

    def read_group(self, group: int, columns: Sequence[str] = SCHEMA.names) -> pa.RecordBatch:
        """Read and decode *columns* of a row group; of structs also some members, such as `typed.order_id`.

        A file whose events were all erased has no row group: it has no events in the columns of `SCHEMA`.

        Raises:
            DamagedFileError: the bytes are not those that were written.
        """
        if group >= self.group_count:
            return pa.RecordBatch.from_pylist([], schema=SCHEMA)
        try:
            with self._reading:
                table = self._file.read_row_group(group, [*columns], use_threads=False)
            return table.combine_chunks().to_batches()[0].replace_schema_metadata(None)
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            raise _explain(error) from error

    def check(self, seen: Callable[[pa.RecordBatch], object] = lambda batch: None) -> FileContent:  # noqa: ARG005
        """Read everything, and return what the file really holds; *seen* is called with each row group.

        Raises:
            DamagedFileError: it cannot be read, or its offsets are not those of its range.
        """
        check, last = _ContentCheck(), self.description.start - 1
        for group in range(self.group_count):
            batch = self.read_group(group, self._file.schema_arrow.names).select(SCHEMA.names)
            if not batch.num_rows:
                continue
            offsets = batch.column("offset").to_pylist()
            if any(after <= before for before, after in zip([last, *offsets], offsets, strict=False)):
                raise DamagedFileError("its offsets do not rise")
            last = offsets[-1]
            check.add(batch)
            seen(batch)
        if last >= self.description.stop:
            raise DamagedFileError("it has events after its range")
        return check.finish()

    @staticmethod
    def _find_typed_type(schema: pa.Schema) -> pa.StructType | None:
        """Return the type of the typed columns; None if there are none."""
        own, more = pa.schema([*schema][: len(SCHEMA)]), [*schema][len(SCHEMA) :]
        is_typed = [each.name for each in more] == [TYPED, RESCUED] and pa.types.is_struct(more[0].type)
        if not own.equals(SCHEMA) or (more and not is_typed):
            raise DamagedFileError("its columns are not those of a cold tier")
        return more[0].type if more else None

    def _find_statistics(self, group: int, name: str) -> Any:
        column = SCHEMA.get_field_index(name)
        statistics = self._file.metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max:
            raise DamagedFileError(f"it has no statistics of the column {name}")
        return statistics


def _leaf_paths(type: pa.DataType, path: str) -> Iterator[str]:
    """Yield the names that Parquet has for the simple columns of a type."""
    if pa.types.is_struct(type):
        for field in type:
            yield from _leaf_paths(field.type, f"{path}.{field.name}")
    elif pa.types.is_list(type):
        yield from _leaf_paths(type.value_type, f"{path}.list.element")
    elif pa.types.is_map(type):
        yield f"{path}.key_value.key"
        yield from _leaf_paths(type.item_type, f"{path}.key_value.value")
    else:
        yield path


def slice_offsets(batch: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
    """Return the rows with offsets from *start* to before *stop*."""
    offsets = batch.column("offset")
    rows = len(offsets)
    if not rows:
        return batch
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    if last - first + 1 == rows:  # No offset is missing.
        begin, end = start - first, stop - first
    else:
        begin, end = (bisect_left(range(rows), each, key=lambda row: offsets[row].as_py()) for each in (start, stop))
    begin, end = min(max(begin, 0), rows), min(max(end, 0), rows)
    return batch.slice(begin, max(0, end - begin))


def cut_bytes(batch: pa.RecordBatch, limit: int, *, is_first: bool) -> tuple[pa.RecordBatch, int | None]:
    """Return the first rows, whose texts have up to *limit* bytes, and the offset of the row after them.

    The offset is None if all rows fit. The first row of a chunk is never cut off.
    """
    if batch.nbytes <= limit or not batch.num_rows:
        return batch, None
    ends = [_ends_of(batch.column(name)) for name in ("key", "kind", "headers", "data")]
    rows = bisect_right(range(batch.num_rows), limit, key=lambda row: sum(each[row + 1] - each[0] for each in ends))
    rows = max(rows, 1) if is_first else rows
    if rows >= batch.num_rows:
        return batch, None
    return batch.slice(0, rows), int(batch.column("offset")[rows].as_py())


def find_ranges(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    """Return the offsets of the rows as ranges."""
    offsets = batch.column("offset")
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    if last - first + 1 == len(offsets):
        return [(first, last + 1)]
    found = offsets.to_pylist()
    ends = [row for row in range(1, len(found)) if found[row] != found[row - 1] + 1]
    return [(found[start], found[end - 1] + 1) for start, end in pairwise([0, *ends, len(found)])]


def find_key(batch: pa.RecordBatch, key: str) -> list[int]:
    """Return the offsets of the rows that have a key."""
    found = pc.equal(batch.column("key"), key).fill_null(False)
    offsets: list[int] = batch.column("offset").filter(found).to_pylist()
    return offsets


def leave_out(batch: pa.RecordBatch, offsets: Sequence[int]) -> pa.RecordBatch:
    """Return the rows without those of some offsets."""
    found = pc.is_in(batch.column("offset"), value_set=pa.array(offsets, pa.int64()))
    return batch.filter(pc.invert(found))


class _ContentCheck:
    """Computes a `FileContent`, batch by batch; how events are divided into batches makes no difference."""

    def __init__(self) -> None:
        self.data_bytes = 0
        self._events = 0
        self._received_from = 0
        self._received_to = 0
        self._digests = [
            hashlib.sha256() for name in SCHEMA.names for _ in _parts_of(pa.nulls(0, SCHEMA.field(name).type))
        ]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch, of which there are some."""
        times = batch.column("received_at").cast(pa.int64())
        if not self._events:
            self._received_from = times[0].as_py()
        self._received_to = times[-1].as_py()
        self._events += batch.num_rows
        self.data_bytes += pc.sum(pc.binary_length(batch.column("data"))).as_py()
        parts = (part for column in batch.columns for part in _parts_of(column))
        for digest, part in zip(self._digests, parts, strict=True):
            digest.update(part)

    def finish(self) -> FileContent:
        """Return what all batches hold."""
        whole = hashlib.sha256(b"".join(digest.digest() for digest in self._digests))
        return FileContent(self._events, self.data_bytes, self._received_from, self._received_to, whole.hexdigest())


def _parts_of(column: pa.Array) -> Iterator[bytes]:
    """Yield what the digest of a column is made of: of texts the sizes, -1 for null, and the bytes; else the values."""
    if pa.types.is_string(column.type):
        yield buffer_of(pc.binary_length(column).fill_null(-1), 4)
        yield data_of(column.fill_null("") if column.null_count else column)
    else:
        yield buffer_of(column, column.type.bit_width // 8)


def data_of(texts: pa.Array) -> bytes:
    """Return the bytes of texts, one after the other."""
    ends, data = _ends_of(texts), texts.buffers()[2]
    return bytes(data.slice(ends[0], ends[-1] - ends[0])) if ends[-1] > ends[0] else b""


def count_bytes(texts: pa.Array) -> int:
    """Return the number of bytes that `data_of` returns."""
    ends = _ends_of(texts)
    return ends[-1] - ends[0]


def _ends_of(texts: pa.Array) -> "memoryview[int]":
    """Return where each text begins in the bytes of all, and where the last one ends. A null has no bytes."""
    if not len(texts):
        return memoryview(b"\0" * 4).cast("i")
    return memoryview(texts.buffers()[1]).cast("b").cast("i")[texts.offset : texts.offset + len(texts) + 1]


def buffer_of(values: pa.Array, width: int) -> bytes:
    """Return the values of an array without nulls, each of *width* bytes."""
    _, data = values.buffers()
    return bytes(data.slice(values.offset * width, len(values) * width)) if len(values) else b""


def _explain(error: Exception) -> Exception:
    """Return the error of a read: Arrow raises OSError also for damaged files, and for those that were deleted."""
    if isinstance(error, OSError) and "AWS Error NO_SUCH_KEY" in str(error):
        return FileNotFoundError(_one_line(error))
    is_away = isinstance(error, OSError) and (error.errno is not None or "AWS Error" in str(error))
    return error if is_away else DamagedFileError(_one_line(error))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
