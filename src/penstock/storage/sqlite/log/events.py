"""The log in SQLite.

Beside each event lies its shape, from which a reader by column knows how to cut a range into events. A shape is one
character, whose code point is the size of the event's data in bytes. `BEGINS` precedes it if the event is the first of
a block, so that it may have been received at another time than the event before it; `KEYED` if it has a key; `SPARSE`
if it has a kind or headers. SQLite joins shapes faster than it formats numbers, and Python decodes those of a whole
range at once.
"""

import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain, count, repeat
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from penstock.storage.log.events import (
    CHUNK_BYTES,
    ROW_COLUMNS,
    SIZE_BYTES,
    Block,
    Frame,
    KindFilter,
    LogRepository,
    PartitionHead,
    ReceiveTimes,
    StoredColumns,
    StoredLines,
)
from penstock.storage.sqlite import SQLITE

BEGINS: Final = "\U0010ffff"
KEYED: Final = "\U0010fffe"
SPARSE: Final = "\U0010fffd"
SIZE_MAX: Final = 0x10FFFC
"""Largest size of an event: no code point is left for more. The hub takes events up to 999,000 bytes, and adds some."""
_SIZES: Final = f"utf-32-{sys.byteorder[0]}e"

_sql: Final = SQLITE.statements
_json: Final = msgspec.json.encode
_BLOCKS: Final = 64
"""Up to this many blocks, their times are looked up one by one; one scan is cheaper for more."""
Chunk = TypeVar("Chunk", StoredLines, StoredColumns)
_OFFSET_BITS: Final = 40
_OFFSETS: Final = 1 << _OFFSET_BITS
"""How many events a partition can have over time: 34 years at a thousand a second."""
_STATEMENT_ROWS: Final = 1 << 10
_REST_ROWS_MAX: Final = 1 << 6
_BLOCK_ROWS_MIN: Final = 1 << 6
"""Smaller blocks share statements with each other."""


class Shapes(NamedTuple):
    """Shapes of a range of events."""

    sizes: bytes
    """As in `StoredColumns.sizes`."""
    blocks: list[int]
    """Number of neighbours of each block; of the first and last block only those inside the range."""
    keyed: int
    """Number of events that have a key."""
    sparse: bool
    """True if any event has a kind or headers."""


def decode_shapes(joined: bytes) -> Shapes:
    """Decode joined shapes.

    >>> decode_shapes(f"ab{BEGINS}{KEYED}c".encode())[1:]
    ([2, 1], 1, False)
    """
    text = joined.decode(errors="surrogatepass")  # A size may be the code point of a surrogate.
    blocks = text.replace(KEYED, "").replace(SPARSE, "").split(BEGINS)
    sizes = "".join(blocks).encode(_SIZES, errors="surrogatepass")
    return Shapes(sizes, [len(block) for block in blocks if block], text.count(KEYED), sparse=SPARSE in text)


@cache
def _insert_block(columns: Sequence[str], rows: int) -> str:
    """Return the statement that inserts *rows* rows of a block, given place and mark of the first row, and the time."""
    own = (range(4 + row * len(columns), 4 + (row + 1) * len(columns)) for row in range(rows))
    values = [f"(?1+{row},?2,{_values(columns, each, '?3' if row == 0 else None)})" for row, each in enumerate(own)]
    return _insert(columns, values)


@cache
def _insert_loose(rows: int) -> str:
    """Return the statement that inserts *rows* rows, each with its own place and mark."""
    width = 3 + len(ROW_COLUMNS)
    own = [
        f"(?{at},?{at + 1},{_values(ROW_COLUMNS, range(at + 3, at + width), f'?{at + 2}')})"
        for at in range(1, rows * width, width)
    ]
    return _insert(ROW_COLUMNS, own)


def _insert(columns: Sequence[str], rows: Iterable[str]) -> str:
    names = ",".join(["place", "received_at", "shape", *columns])
    return f"INSERT INTO penstock_event ({names}) VALUES {','.join(rows)}"  # noqa: S608 - its parts are constants


def _values(columns: Sequence[str], parameters: Sequence[int], mark: str | None) -> str:
    """Return the expressions of a row's shape and of its columns; the last column is its data, passed as bytes."""
    *texts, data = [f"?{at}" for at in parameters]
    marks = [KEYED if name == "key" else SPARSE for name in columns[:-1]]
    shape = [mark] if mark else []
    shape += [f"iif({text} IS NULL,'','{mark}')" for text, mark in zip(texts, marks, strict=True)]
    return ",".join(["||".join([*shape, f"char(length({data}))"]), *texts, f"CAST({data} AS TEXT)"])


def _spans(rows: int) -> Iterator[slice]:
    """Divide *rows* rows into few sizes, so that SQLite keeps every statement prepared: powers of two, and any rest.

    A rest of up to `_REST_ROWS_MAX` rows is one statement: the committer waits for the interpreter after each.
    """
    at = 0
    while left := rows - at:
        size = left if left <= _REST_ROWS_MAX else min(_STATEMENT_ROWS, 1 << (left.bit_length() - 1))
        yield slice(at, at + size)
        at += size


Ask = Callable[..., Any]
"""Runs a statement by name over a range, with more parameters, and returns its one row."""


class SqliteLog(LogRepository):
    """The log in SQLite."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def find_heads(self, partition_ids: Sequence[int], *, lock: bool = False) -> dict[int, PartitionHead]:
        """Return heads; a write transaction has locked the whole file already."""
        del lock
        rows = self._connection.execute(_sql["heads"], {"ids": _json(partition_ids).decode()})
        return {partition_id: PartitionHead(*rest) for partition_id, *rest in rows.fetchall()}

    def append(self, blocks: Iterable[Block]) -> None:
        """Append events by statements of many rows: Python yields to other threads at every statement."""
        loose: list[Sequence[Any]] = []
        for block in blocks:
            columns = tuple(zip(*block.rows, strict=True))
            _check_sizes(columns[-1])
            place_of(block.partition_id, block.start + len(block.rows))  # Checks the end.
            first = place_of(block.partition_id, block.start)
            if len(block.rows) < _BLOCK_ROWS_MIN:
                places = zip(count(first), chain([BEGINS], repeat("")), block.rows, strict=False)
                loose += [(place, block.received_at, mark, *row) for place, mark, row in places]
            else:
                self._append_block(first, block, columns)
        for span in _spans(len(loose)):
            rows = loose[span]
            self._connection.execute(_insert_loose(len(rows)), tuple(chain.from_iterable(rows)))

    def _append_block(self, first: int, block: Block, columns: Sequence[Sequence[Any]]) -> None:
        """Append a block without the columns that are NULL in all rows: each value that is not bound saves time."""
        named = zip(ROW_COLUMNS, columns, strict=True)
        own = {name: values for name, values in named if values.count(None) < len(values)}
        for span in _spans(len(block.rows)):
            rows = zip(*[values[span] for values in own.values()], strict=True)
            place = (first + span.start, block.received_at, "" if span.start else BEGINS)
            statement = _insert_block(tuple(own), span.stop - span.start)
            self._connection.execute(statement, (*place, *chain.from_iterable(rows)))

    def read_lines(
        self, partition_id: int, start: int, stop: int, frame: Frame, kinds: KindFilter | None
    ) -> StoredLines:
        """Return a range as one value."""
        given: dict[str, Any] = frame._asdict()
        name = "lines"
        if kinds is not None:
            name = "lines_of_kinds"
            given |= {"kinds": _json(sorted(kinds.kinds)).decode(), "skip": kinds.skip, "default": kinds.default}

        def read(stop: int) -> StoredLines:
            scanned, kept, body = self._ask(partition_id, start, stop)(name, **given)
            return StoredLines(stop, scanned, kept, body or b"")

        return self._fitting(partition_id, start, stop, read)

    def read_columns(self, partition_id: int, start: int, stop: int, separator: str = "") -> StoredColumns:
        """Return a range by column."""

        def read(stop: int) -> StoredColumns:
            ask = self._ask(partition_id, start, stop)
            data, joined, keys = ask("columns", separator=separator)
            shapes = decode_shapes(joined or b"")
            rows = len(shapes.sizes) // SIZE_BYTES
            is_dense = rows == stop - start
            received = _read_times(ask, place_of(partition_id, start), shapes.blocks, is_dense=is_dense)
            columns = _make_columns(stop, data or b"", shapes.sizes, keys, received)
            is_sparse = shapes.sparse or 0 < shapes.keyed < rows
            return _read_sparse_columns(ask, columns) if is_sparse else columns

        return self._fitting(partition_id, start, stop, read)

    def find_first_offsets(self, ranges: Mapping[int, tuple[int, int]], at: int) -> dict[int, int]:
        """Return the first offset of each range that was received at *at* or later."""
        given = _json([[partition_id, *ends] for partition_id, ends in ranges.items()]).decode()
        return dict(self._connection.execute(_sql["since"], {"ranges": given, "at": at}).fetchall())

    def find_receive_times(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """Return when the first event at each offset or after it was received."""
        given = _json(list(offsets.items())).decode()
        return dict(self._connection.execute(_sql["received"], {"positions": given}).fetchall())

    def _fitting(self, partition_id: int, start: int, stop: int, read: Callable[[int], Chunk]) -> Chunk:
        """Read a range; only if SQLite refuses to make so large a value, find out how much fits into a chunk."""
        while True:
            try:
                return read(stop)
            except sqlite3.DataError as error:
                if stop - start == 1 or getattr(error, "sqlite_errorname", "") != "SQLITE_TOOBIG":
                    raise
            (fits,) = self._ask(partition_id, start, stop)("fitting", bytes=CHUNK_BYTES) or (None,)
            # Separators count too: if only they do not fit, half of the range does.
            stop = max(start + 1, start + fits if fits is not None else (start + stop) // 2)

    def _ask(self, partition_id: int, start: int, stop: int) -> Ask:
        """Return a function that runs a statement by name over a range and returns its one row."""
        first, past = place_of(partition_id, start), place_of(partition_id, stop)

        def ask(statement_name: str, /, **given: Any) -> Any:
            return self._connection.execute(_sql[statement_name], {"first": first, "past": past, **given}).fetchone()

        return ask


def place_of(partition_id: int, offset: int) -> int:
    """Return the place of an offset among those of all partitions: see migration 0002.

    Raises:
        ValueError: no partition can have that offset.

    >>> place_of(1, 5) - place_of(1, 0), place_of(2, 0) > place_of(1, (1 << 40) - 1)
    (5, True)
    """
    if not 0 <= offset <= _OFFSETS:
        raise ValueError(f"the offsets of a partition in SQLite are from 0 to {_OFFSETS - 1}, not {offset}")
    return (partition_id << _OFFSET_BITS) + offset


def _check_sizes(events: Iterable[bytes]) -> None:
    if max(map(len, events)) > SIZE_MAX:
        raise ValueError(f"an event of more than {SIZE_MAX} bytes has no shape, and cannot be kept in SQLite")


def _read_times(ask: Ask, first: int, blocks: Sequence[int], *, is_dense: bool) -> ReceiveTimes | None:
    """Return when the *blocks* from the place *first* on were received; None if a block has been removed.

    Unless the range *is_dense*, the beginnings of blocks may be missing.
    """
    if len(blocks) > _BLOCKS or not is_dense:
        found, ends, times = ask("columns_received")
        return ReceiveTimes(ends or b"", times or b"") if (found or 0) == sum(blocks) else None
    stops = list(accumulate(blocks))
    firsts = [first + stop for stop in (0, *stops)[: len(stops)]]
    found, times = ask("columns_received_at", places=_json(firsts).decode())
    if found != len(firsts):
        return None
    return ReceiveTimes(b"\n".join([b"%d" % stop for stop in stops]), times or b"")


def _make_columns(
    stop: int, data: bytes, sizes: bytes, keys: bytes | None, received: ReceiveTimes | None
) -> StoredColumns:
    """Return a range whose events have no kind and no headers, and all or none of them a key.

    *received* is None if the query for the times has noticed a removal: `rows` is 0 then, so smaller than the range.
    """
    if received is None:
        return StoredColumns(stop, 0, data, sizes, keys, None, None, ReceiveTimes(b"", b""))
    return StoredColumns(stop, len(sizes) // SIZE_BYTES, data, sizes, keys, None, None, received)


def _read_sparse_columns(ask: Ask, columns: StoredColumns) -> StoredColumns:
    """Return *columns* with the keys, kinds and headers of their events, which only some of these have.

    The statements are not one transaction: if rows were removed between two of them, `rows` is smaller than the range.
    """
    counted, keys, kinds, headers = ask("columns_sparse")
    return columns._replace(rows=min(columns.rows, counted), keys=keys, kinds=kinds, headers=headers)
