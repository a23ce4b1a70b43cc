"""The log in SQLite."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec

from penstock.storage.ranges import read_columns
from penstock.storage.statements import statement
from penstock.storage.store import CHUNK_BYTES, ROW_COLUMNS, Block, Columns, Frame, Head, KindFilter, Lines, Runs

_sql: Final = partial(statement, __package__)
_json: Final = msgspec.json.encode
_SPANS: Final = 512
"""So many spans are looked into for where the times change; beyond that one scan of them all is cheaper."""
Chunk = TypeVar("Chunk", Lines, Columns)
_STATEMENT_ROWS: Final = 1 << 10
_BLOCK_ROWS_MIN: Final = 1 << 6
"""Smaller blocks share statements with each other."""


@cache
def _insert_block(columns: Sequence[str], rows: int) -> str:
    """Return the statement that adds *rows* rows, given their partition, time and first offset once."""
    own = [f"(?1,?3+{row},?2,{_values(columns, 4 + row * len(columns))})" for row in range(rows)]
    return _insert(columns, own)


@cache
def _insert_loose(rows: int) -> str:
    """Return the statement that adds *rows* rows, each with its own place."""
    width = 3 + len(ROW_COLUMNS)
    own = [f"(?{at},?{at + 1},?{at + 2},{_values(ROW_COLUMNS, at + 3)})" for at in range(1, rows * width, width)]
    return _insert(ROW_COLUMNS, own)


def _insert(columns: Sequence[str], rows: Iterable[str]) -> str:
    names = ",".join(["partition_id", '"offset"', "received_at", *columns])
    return f"INSERT INTO penstock_event ({names}) VALUES {','.join(rows)}"  # noqa: S608 - its parts are constants


def _values(columns: Sequence[str], first: int) -> str:
    return ",".join(f"CAST(?{at} AS TEXT)" if name == "data" else f"?{at}" for at, name in enumerate(columns, first))


def _spans(rows: int) -> Iterator[slice]:
    """Cut *rows* rows into powers of two: few sizes, so that SQLite keeps every statement prepared."""
    at = 0
    while left := rows - at:
        size = min(_STATEMENT_ROWS, 1 << (left.bit_length() - 1))
        yield slice(at, at + size)
        at += size


class SqliteEvents:
    """See `penstock.storage.store.Events`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def heads(self, partition_ids: Sequence[int]) -> dict[int, Head]:
        """See `Events.heads`."""
        rows = self._connection.execute(_sql("heads"), {"ids": _json(partition_ids).decode()})
        return {partition_id: Head(*rest) for partition_id, *rest in rows.fetchall()}

    def lock_heads(self, partition_ids: Sequence[int]) -> dict[int, Head]:
        """See `Events.lock_heads`: the transaction has the whole file already."""
        return self.heads(partition_ids)

    def append(self, blocks: Iterable[Block]) -> None:
        """See `Events.append`. Statements of many rows: Python lets other threads go first at every statement."""
        loose: list[Sequence[Any]] = []
        for block in blocks:
            if len(block.rows) < _BLOCK_ROWS_MIN:
                places = enumerate(block.rows, block.start)
                loose += [(block.partition_id, offset, block.received_at, *row) for offset, row in places]
            else:
                self._append_block(block)
        for span in _spans(len(loose)):
            rows = loose[span]
            self._connection.execute(_insert_loose(len(rows)), tuple(chain.from_iterable(rows)))

    def _append_block(self, block: Block) -> None:
        """Append without the columns that no row has: every value that need not be bound makes it faster."""
        columns = zip(ROW_COLUMNS, zip(*block.rows, strict=True), strict=True)
        own = {name: values for name, values in columns if values.count(None) < len(values)}
        for span in _spans(len(block.rows)):
            rows = zip(*[values[span] for values in own.values()], strict=True)
            place = (block.partition_id, block.received_at, block.start + span.start)
            statement = _insert_block(tuple(own), span.stop - span.start)
            self._connection.execute(statement, (*place, *chain.from_iterable(rows)))

    def lines(self, partition_id: int, start: int, stop: int, frame: Frame, kinds: KindFilter | None) -> Lines:
        """See `Events.lines`."""
        given: dict[str, Any] = frame._asdict()
        name = "lines"
        if kinds is not None:
            name = "lines_of_kinds"
            given |= {"kinds": _json(sorted(kinds.kinds)).decode(), "skip": kinds.skip, "default": kinds.default}

        def read(stop: int) -> Lines:
            scanned, kept, body = self._one(name, partition_id=partition_id, start=start, stop=stop, **given)
            return Lines(stop, scanned, kept, body or b"")

        return self._fitting(partition_id, start, stop, read)

    def columns(self, partition_id: int, start: int, stop: int) -> Columns:
        """See `Events.columns`."""

        def read(stop: int) -> Columns:
            ask = partial(self._one, partition_id=partition_id, start=start, stop=stop)
            return read_columns(ask, partial(_times, ask, stop - start), stop)

        return self._fitting(partition_id, start, stop, read)

    def _fitting(self, partition_id: int, start: int, stop: int, read: Callable[[int], Chunk]) -> Chunk:
        """Read, and only when SQLite refuses to make so large a value look how much fits into a chunk."""
        while True:
            try:
                return read(stop)
            except sqlite3.DataError as error:
                if stop - start == 1 or getattr(error, "sqlite_errorname", "") != "SQLITE_TOOBIG":
                    raise
            given = {"partition_id": partition_id, "start": start, "stop": stop, "bytes": CHUNK_BYTES}
            (fits,) = self._one("fitting", **given) or (stop,)
            # Separators count too: where all fits but for them, half of it does.
            stop = max(start + 1, fits if fits < stop else (start + stop) // 2)

    def _one(self, statement_name: str, /, **given: Any) -> Any:
        return self._connection.execute(_sql(statement_name), given).fetchone()


def _times(ask: Callable[..., Any], rows: int, first: int, last: int) -> Runs | None:
    spans, ends, times = ask("columns_received_in_few_runs", first=first, last=last, spans=_SPANS)
    if spans < _SPANS and ends is not None:
        return Runs(b"%b\n%d" % (ends, rows), b"%d\n%b" % (first, times))
    ends, times = ask("columns_received")
    return None if ends is None else Runs(ends, times)
