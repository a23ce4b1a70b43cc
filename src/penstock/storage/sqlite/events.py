"""The log in SQLite."""

import sqlite3
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

import msgspec

from penstock.storage.statements import statement
from penstock.storage.store import Columns, Frame, Head, KindFilter, Lines, LogRow, Measure

_sql: Final = partial(statement, __package__)
_json: Final = msgspec.json.encode
_BLOCK: Final = 1 << 10
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

    def measure(self, partition_id: int, start: int, stop: int) -> Measure:
        """See `Events.measure`."""
        return Measure(*self._one("measure", partition_id=partition_id, start=start, stop=stop))

    def lines(self, partition_id: int, start: int, stop: int, frame: Frame, kinds: KindFilter | None) -> Lines:
        """See `Events.lines`."""
        given: dict[str, Any] = {"partition_id": partition_id, "start": start, "stop": stop, **frame._asdict()}
        if kinds is None:
            scanned, kept, body = self._one("lines", **given)
        else:
            wanted = _json(sorted(kinds.kinds)).decode()
            scanned, kept, body = self._one(
                "lines_of_kinds", **given, kinds=wanted, skip=kinds.skip, default=kinds.default
            )
        return Lines(scanned, kept, body or b"")

    def columns(self, partition_id: int, start: int, stop: int, measure: Measure) -> Columns:
        """See `Events.columns`."""
        return Columns(
            *self._one(
                "columns",
                partition_id=partition_id,
                start=start,
                stop=stop,
                keys=measure.keys > 0,
                kinds=measure.kinds > 0,
                headers=measure.headers > 0,
                received=measure.received_first != measure.received_last,
            )
        )

    def _one(self, statement_name: str, /, **given: Any) -> Any:
        return self._connection.execute(_sql(statement_name), given).fetchone()
