"""The log in PostgreSQL."""

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any, Final

import psycopg

from penstock.storage.log.events import (
    CHUNK_BYTES,
    ROW_COLUMNS,
    SIZE_BYTES,
    Ask,
    Block,
    Frame,
    KindFilter,
    LogRepository,
    PartitionHead,
    ReceiveTimes,
    StoredColumns,
    StoredLines,
    make_columns,
    read_sparse_columns,
)
from penstock.storage.postgres import POSTGRES
from penstock.storage.postgres.history import PrimaryHistory

_sql: Final = POSTGRES.statements
_FEW_ROWS: Final = 64
"""Up to this many rows are inserted in one exchange with the database; COPY takes two, and is faster for more rows."""
_ANY_SIZE: Final = 1 << 62
"""A single event is read whatever its size."""
_SENT_ROWS: Final = 128
"""Rows sent at once: the database reads them while the next ones are formatted."""
_SPECIAL: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


class PostgresLog(LogRepository):
    """The log in PostgreSQL."""

    def __init__(
        self, connection: "psycopg.Connection[tuple[Any, ...]]", last: list[str], history: PrimaryHistory
    ) -> None:
        """*last* takes statements that the transaction runs together with its COMMIT; *history* notes all heads."""
        self._connection = connection
        self._last = last
        self._history = history
        self._appended: set[int] = set()
        """Partitions of events in *last*: their heads are not read before these are in the log."""

    def find_heads(self, partition_ids: Sequence[int], *, lock: bool = False) -> dict[int, PartitionHead]:
        """Return heads, and lock their rows on request.

        The rows are locked and not updated, or they would bloat while a long transaction is open
        (docs/decisions/head-rows.md).
        """
        given = {"ids": list(partition_ids)}
        if not self._appended.isdisjoint(partition_ids):
            psycopg.ClientCursor(self._connection).execute(";\n".join(self._last))
            self._last.clear()
            self._appended.clear()
        if lock:
            with psycopg.ClientCursor(self._connection) as cursor:  # One exchange; each statement has its own snapshot.
                cursor.execute(f"{_sql['lock_heads']};\n{_sql['heads']}", given)
                cursor.nextset()
                rows = cursor.fetchall()
        else:
            rows = self._connection.execute(_sql["heads"], given).fetchall()
        return self._history.note(rows)

    def append(self, blocks: Iterable[Block]) -> None:
        """Append events by COPY, or a few by an INSERT that goes to the database together with the COMMIT."""
        blocks = [block for block in blocks if block.rows]
        if not blocks:
            return
        if sum(len(block.rows) for block in blocks) <= _FEW_ROWS:
            self._last.append(self._insert(blocks))
            self._appended.update(block.partition_id for block in blocks)
            return
        columns = [tuple(zip(*block.rows, strict=True)) for block in blocks]
        used = [any(values.count(None) < len(values) for values in own) for own in zip(*columns, strict=True)]
        with self._connection.cursor() as cursor, cursor.copy(_copy(tuple(compress(ROW_COLUMNS, used)))) as copy:
            for block, own in zip(blocks, columns, strict=True):
                for at in range(0, len(block.rows), _SENT_ROWS):
                    sent = [values[at : at + _SENT_ROWS] for values in own]
                    copy.write(_copy_lines(block, block.start + at, sent, used))

    def read_lines(
        self, partition_id: int, start: int, stop: int, frame: Frame, kinds: KindFilter | None
    ) -> StoredLines:
        """Return a range as one value."""
        if kinds is None:
            return self._read_all_lines(partition_id, start, stop, frame)
        stop = self._find_stop(partition_id, start, stop)
        chosen = {"kinds": sorted(kinds.kinds), "skip": kinds.skip, "default": kinds.default}
        given = {"partition_id": partition_id, "start": start, "stop": stop, **frame._asdict(), **chosen}
        scanned, kept, body = self._one("lines_of_kinds", **given)
        return StoredLines(stop, scanned, kept, body or b"")

    def _read_all_lines(self, partition_id: int, start: int, stop: int, frame: Frame) -> StoredLines:
        while True:
            bytes_max = CHUNK_BYTES if stop - start > 1 else _ANY_SIZE
            given = {"partition_id": partition_id, "start": start, "stop": stop}
            rows, size, body = self._one("lines", **given, separator=frame.separator, bytes_max=bytes_max)
            if size <= bytes_max:
                framed = b"".join((frame.prefix.encode(), body, frame.suffix.encode())) if rows else b""
                return StoredLines(stop, rows, rows, framed)
            stop = self._find_fitting(**given)

    def read_columns(self, partition_id: int, start: int, stop: int, separator: str = "") -> StoredColumns:
        """Return a range by column."""
        stop = self._find_stop(partition_id, start, stop)
        ask = partial(self._one, partition_id=partition_id, start=start, stop=stop)

        data, sizes, keys, keyed, sparse, first, last = ask("columns", separator=separator)
        sizes = _to_native_order(sizes or b"")
        rows = len(sizes) // SIZE_BYTES
        received = _read_times(ask, rows, first, last)
        columns = make_columns(stop, data or b"", sizes, keys, received)
        return read_sparse_columns(ask, columns) if sparse or 0 < keyed < rows else columns

    def find_first_offsets(self, ranges: Mapping[int, tuple[int, int]], at: int) -> dict[int, int]:
        """Return the first offset of each range that was received at *at* or later."""
        starts, stops = ([ends[which] for ends in ranges.values()] for which in (0, 1))
        given = {"ids": list(ranges), "starts": starts, "stops": stops, "at": at}
        return dict(self._connection.execute(_sql["since"], given).fetchall())

    def find_receive_times(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """Return when the first event at each offset or after it was received."""
        given = {"ids": list(offsets), "offsets": list(offsets.values())}
        return dict(self._connection.execute(_sql["received"], given).fetchall())

    def _insert(self, blocks: Sequence[Block]) -> str:
        values: list[Any] = []
        for block in blocks:
            for offset, (*texts, data) in enumerate(block.rows, block.start):
                values += (block.partition_id, offset, block.received_at, *texts, data.decode())
        columns = 3 + len(ROW_COLUMNS)
        row = f"({', '.join(['%s'] * columns)})"
        names = ", ".join(["partition_id", '"offset"', "received_at", *ROW_COLUMNS])
        rows = ", ".join([row] * (len(values) // columns))
        return psycopg.ClientCursor(self._connection).mogrify(
            f"INSERT INTO penstock_event ({names}) VALUES {rows}",  # noqa: S608 - its parts are constants
            values,
        )

    def _find_stop(self, partition_id: int, start: int, stop: int) -> int:
        if stop - start == 1:
            return stop
        given = {"partition_id": partition_id, "start": start, "stop": stop}
        (size,) = self._one("size", **given)
        return stop if size <= CHUNK_BYTES else self._find_fitting(**given)

    def _find_fitting(self, partition_id: int, start: int, stop: int) -> int:
        given = {"partition_id": partition_id, "start": start, "stop": stop}
        (fits,) = self._one("fitting", **given, bytes=CHUNK_BYTES) or (stop,)
        return max(start + 1, int(fits))

    def _one(self, statement_name: str, /, **given: Any) -> Any:
        with self._connection.cursor(binary=True) as cursor:
            return cursor.execute(_sql[statement_name], given).fetchone()


def _to_native_order(sizes: bytes) -> bytes:
    numbers = array("i", sizes)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def _read_times(ask: Ask, rows: int, first: int | None, last: int | None) -> ReceiveTimes | None:
    """Return the times of a range; None if some of it has been removed.

    *first* and *last* are the times at its ends; None: there is no event.
    """
    if not rows:
        return ReceiveTimes(b"", b"")
    if first is not None and first == last:
        return ReceiveTimes(b"%d" % rows, b"%d" % first)
    found, ends, times = ask("columns_received")
    return ReceiveTimes(ends, times) if found == rows else None


def _copy(columns: Sequence[str]) -> Any:
    """Return the statement that copies rows in the text format; columns that are not named are NULL."""
    names = ", ".join(["partition_id", '"offset"', "received_at", *columns])
    return f"COPY penstock_event ({names}) FROM STDIN"


def _copy_lines(block: Block, first: int, columns: Sequence[Sequence[Any]], used: Sequence[bool]) -> bytes:
    line = b"%d\t%%d\t%d%b\n" % (block.partition_id, block.received_at, b"\t%b" * sum(used))
    *texts, data = columns
    fields = compress([*(map(_field, column) for column in texts), _data_fields(data)], used)
    return b"".join([line % row for row in zip(range(first, first + len(data)), *fields, strict=True)])


def _data_fields(events: Sequence[bytes]) -> Sequence[bytes]:
    joined = b"".join(events)
    if b"\\" not in joined and b"\t" not in joined:
        return events
    return [event.replace(b"\\", b"\\\\").replace(b"\t", b"\\t") for event in events]


def _field(text: str | None) -> bytes:
    if text is None:
        return b"\\N"
    if "\\" in text or not text.isprintable():
        for special, escaped in _SPECIAL:
            text = text.replace(special, escaped)
    return text.encode()
