"""The log in PostgreSQL."""

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any, Final

import psycopg

from penstock.storage.ranges import SIZE_BYTES, Ask, columns_of
from penstock.storage.statements import statement
from penstock.storage.store import CHUNK_BYTES, ROW_COLUMNS, Block, Columns, Frame, Head, KindFilter, Lines, Runs

_sql: Final[Any] = partial(statement, __package__)
_SENT_ROWS: Final = 128
"""So many rows are sent at once: the database reads them while the next are being written."""
_SPECIAL: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


class PostgresEvents:
    """See `penstock.storage.store.Events`."""

    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self._connection = connection

    def heads(self, partition_ids: Sequence[int]) -> dict[int, Head]:
        """See `Events.heads`."""
        rows = self._connection.execute(_sql("heads"), {"ids": list(partition_ids)}).fetchall()
        return {partition_id: Head(*rest) for partition_id, *rest in rows}

    def lock_heads(self, partition_ids: Sequence[int]) -> dict[int, Head]:
        """See `Events.lock_heads`: head rows are locked, not updated, or they would bloat under a long transaction."""
        with psycopg.ClientCursor(self._connection) as cursor:  # Both go out together, each looks for itself.
            cursor.execute(f"{_sql('lock_heads')};\n{_sql('heads')}", {"ids": list(partition_ids)})
            cursor.nextset()
            return {partition_id: Head(*rest) for partition_id, *rest in cursor.fetchall()}

    def append(self, blocks: Iterable[Block]) -> None:
        """See `Events.append`."""
        blocks = list(blocks)
        columns = [tuple(zip(*block.rows, strict=True)) for block in blocks]
        used = [any(values.count(None) < len(values) for values in own) for own in zip(*columns, strict=True)]
        with self._connection.cursor() as cursor, cursor.copy(_copy(tuple(compress(ROW_COLUMNS, used)))) as copy:
            for block, own in zip(blocks, columns, strict=True):
                for at in range(0, len(block.rows), _SENT_ROWS):
                    sent = [values[at : at + _SENT_ROWS] for values in own]
                    copy.write(_copy_lines(block, block.start + at, sent, used))

    def lines(self, partition_id: int, start: int, stop: int, frame: Frame, kinds: KindFilter | None) -> Lines:
        """See `Events.lines`."""
        stop = self._fitting(partition_id, start, stop)
        given: dict[str, Any] = {"partition_id": partition_id, "start": start, "stop": stop, **frame._asdict()}
        name = "lines"
        if kinds is not None:
            name = "lines_of_kinds"
            given |= {"kinds": sorted(kinds.kinds), "skip": kinds.skip, "default": kinds.default}
        scanned, kept, body = self._one(name, **given)
        return Lines(stop, scanned, kept, body or b"")

    def columns(self, partition_id: int, start: int, stop: int) -> Columns:
        """See `Events.columns`."""
        stop = self._fitting(partition_id, start, stop)
        ask = partial(self._one, partition_id=partition_id, start=start, stop=stop)

        data, sizes, keyed, sparse, first, last = ask("columns")
        sizes = _own_order(sizes or b"")
        received = _received(ask, len(sizes) // SIZE_BYTES, first, last)
        return columns_of(ask, stop, data or b"", sizes, received, keyed=bool(keyed), sparse=bool(sparse))

    def since(self, ranges: Mapping[int, tuple[int, int]], at: int) -> dict[int, int]:
        """See `Events.since`."""
        starts, stops = ([ends[which] for ends in ranges.values()] for which in (0, 1))
        given = {"ids": list(ranges), "starts": starts, "stops": stops, "at": at}
        return dict(self._connection.execute(_sql("since"), given).fetchall())

    def received(self, positions: Mapping[int, int]) -> dict[int, int]:
        """See `Events.received`."""
        given = {"ids": list(positions), "offsets": list(positions.values())}
        return dict(self._connection.execute(_sql("received"), given).fetchall())

    def _fitting(self, partition_id: int, start: int, stop: int) -> int:
        if stop - start == 1:
            return stop
        given = {"partition_id": partition_id, "start": start, "stop": stop}
        (size,) = self._one("size", **given)
        if size <= CHUNK_BYTES:
            return stop
        (fits,) = self._one("fitting", **given, bytes=CHUNK_BYTES) or (stop,)
        return max(start + 1, fits)

    def _one(self, statement_name: str, /, **given: Any) -> Any:
        with self._connection.cursor(binary=True) as cursor:
            return cursor.execute(_sql(statement_name), given).fetchone()


def _own_order(sizes: bytes) -> bytes:
    numbers = array("i", sizes)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def _received(ask: Ask, rows: int, first: int | None, last: int | None) -> Runs | None:
    """Return when a range came of which the *first* and the *last* time are known; None where some of it is gone."""
    if first is None or last is None:
        return Runs(b"", b"")
    if first == last:
        return Runs(b"%d" % rows, b"%d" % first)
    found, ends, times = ask("columns_received")
    return Runs(ends, times) if found == rows else None


def _copy(columns: Sequence[str]) -> Any:
    """Return the statement that adds rows in the text format; a column that is not named is NULL in each."""
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
