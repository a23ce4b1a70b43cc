"""The log in SQLite."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec

from penstock.storage.ranges import read_columns
from penstock.storage.statements import statement
from penstock.storage.store import CHUNK_BYTES, Columns, Frame, Head, KindFilter, Lines, LogRow, Runs

_sql: Final = partial(statement, __package__)
_json: Final = msgspec.json.encode
_BLOCK: Final = 1 << 10
_SPANS: Final = 512
"""So many spans are looked into for where the times change; beyond that one scan of them all is cheaper."""
Chunk = TypeVar("Chunk", Lines, Columns)
_ROW: Final = "(?,?,?,?,?,?,CAST(? AS TEXT))"


def _insert(rows: int) -> str:
    columns = 'partition_id, "offset", received_at, key, kind, headers, data'
    return f"INSERT INTO penstock_event ({columns}) VALUES {','.join([_ROW] * rows)}"  # noqa: S608 - its parts are constants


_INSERTS: Final = {size: _insert(size) for size in (1 << power for power in range(_BLOCK.bit_length()))}
"""By size in powers of two: few enough that SQLite keeps them prepared."""


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

    def append(self, rows: Sequence[LogRow]) -> None:
        """See `Events.append`. Few statements of many rows: Python lets other threads go first at every statement."""
        at = 0
        while left := len(rows) - at:
            size = min(_BLOCK, 1 << (left.bit_length() - 1))
            self._connection.execute(_INSERTS[size], tuple(chain.from_iterable(rows[at : at + size])))
            at += size

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
