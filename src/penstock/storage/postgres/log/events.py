"""The log in PostgreSQL."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, compress, groupby
from typing import Any, Final

import psycopg
from psycopg.pq import Escaping
from psycopg.types.string import ByteaBinaryLoader

from penstock.storage.log.events import (
    CHUNK_BYTES,
    NONE,
    ROW_COLUMNS,
    Block,
    Frame,
    KindFilter,
    LogRepository,
    PartitionHead,
    ReceiveTimes,
    StoredColumns,
    StoredLines,
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


_COLUMNS: Final = ", ".join(["partition_id", '"offset"', "received_at", *ROW_COLUMNS])
_INSERT: Final = f"INSERT INTO penstock_event ({_COLUMNS}) VALUES ".encode()  # noqa: S608 - its parts are constants
_ROW: Final = b"(%d,%d,%d" + b",%b" * len(ROW_COLUMNS) + b")"


class PostgresLog(LogRepository):
    """The log in PostgreSQL."""

    def __init__(
        self, connection: "psycopg.Connection[tuple[Any, ...]]", last: list[bytes], history: PrimaryHistory
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
            psycopg.ClientCursor(self._connection).execute(b";\n".join(self._last))
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
        name, chosen = "lines", {}
        if kinds is not None:
            name, chosen = (
                "lines_of_kinds",
                {"kinds": sorted(kinds.kinds), "skip": kinds.skip, "default": kinds.default},
            )
        stop, rows = self._read_fitting(name, partition_id, start, stop, **chosen)
        kept = [data for (data,) in rows if data is not None]
        prefix, separator, suffix = map(str.encode, frame)
        body = b"".join((prefix, separator.join(kept), suffix)) if kept else b""
        return StoredLines(stop, len(rows), len(kept), body)

    def read_columns(self, partition_id: int, start: int, stop: int, separator: str = "") -> StoredColumns:
        """Return a range by column."""
        stop, rows = self._read_fitting("columns", partition_id, start, stop)
        if not rows:
            return StoredColumns(stop, 0, b"", b"", None, None, None, ReceiveTimes(b"", b""))
        data, keys, kinds, headers, received = zip(*rows, strict=True)
        sizes = array("i", map(len, data)).tobytes()
        return StoredColumns(
            stop,
            rows=len(rows),
            data=separator.encode().join(data),
            sizes=sizes,
            keys=_join_sparse(keys),
            kinds=_join_sparse(kinds),
            headers=_join_sparse(headers),
            received=_join_times(received),
        )

    def find_first_offsets(self, ranges: Mapping[int, tuple[int, int]], at: int) -> dict[int, int]:
        """Return the first offset of each range that was received at *at* or later."""
        starts, stops = ([ends[which] for ends in ranges.values()] for which in (0, 1))
        given = {"ids": list(ranges), "starts": starts, "stops": stops, "at": at}
        return dict(self._connection.execute(_sql["since"], given).fetchall())

    def find_receive_times(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """Return when the first event at each offset or after it was received."""
        given = {"ids": list(offsets), "offsets": list(offsets.values())}
        return dict(self._connection.execute(_sql["received"], given).fetchall())

    def _insert(self, blocks: Sequence[Block]) -> bytes:
        """Return the statement that inserts *blocks*; its values are in UTF-8, as all text on the connection is."""
        quote = Escaping(self._connection.pgconn).escape_literal
        rows = []
        for block in blocks:
            for offset, (*texts, data) in enumerate(block.rows, block.start):
                values = [b"NULL" if text is None else quote(text.encode()) for text in texts]
                rows.append(_ROW % (block.partition_id, offset, block.received_at, *values, quote(data)))
        return _INSERT + b",".join(rows)

    def _read_fitting(
        self, statement_name: str, partition_id: int, start: int, stop: int, **given: Any
    ) -> tuple[int, list[Any]]:
        """Return the end of the range that is read, and the rows of the statement, whose texts are bytes."""
        place = {"partition_id": partition_id, "start": start}
        while True:
            bytes_max = CHUNK_BYTES if stop - start > 1 else _ANY_SIZE
            with self._connection.cursor(binary=True) as cursor:
                rows = cursor.execute(
                    _sql[statement_name], {**place, "stop": stop, "bytes_max": bytes_max, **given}
                ).fetchall()
                if rows or stop - start <= 1:
                    return stop, rows
                fits = cursor.execute(_sql["fitting"], {**place, "stop": stop, "bytes": CHUNK_BYTES}).fetchone()
            if fits is None:  # No event is there.
                return stop, rows
            stop = max(start + 1, int(fits[0]))


def return_text_as_bytes(connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
    """Have cursors in the binary format return text as the bytes that are stored."""
    connection.adapters.register_loader("text", ByteaBinaryLoader)


def _join_sparse(values: Sequence[bytes | None]) -> bytes | None:
    """Join the values of a column by LF, with `NONE` for each that is NULL; None if all are."""
    if values.count(None) == len(values):
        return None
    return b"\n".join([NONE if value is None else value for value in values])


def _join_times(received: Sequence[int]) -> ReceiveTimes:
    if received[0] == received[-1]:  # They never go back.
        return ReceiveTimes(b"%d" % len(received), b"%d" % received[0])
    times, counts = zip(*((time, sum(1 for _ in run)) for time, run in groupby(received)), strict=True)
    return ReceiveTimes(*(b"\n".join([b"%d" % each for each in column]) for column in (accumulate(counts), times)))


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
