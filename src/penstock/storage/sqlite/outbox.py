"""The outbox in SQLite: there is one writer at a time, so ids are given in commit order and nothing can come late."""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from penstock.storage.outbox import OutboxRow, Taken
from penstock.storage.statements import statement

_sql: Final = partial(statement, __package__)


class SqliteOutbox:
    """See `penstock.storage.outbox.Outbox`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def waiting(self, names: Iterable[str] | None) -> Sequence[str]:
        """See `Outbox.waiting`."""
        given = {"names": None if names is None else msgspec.json.encode(list(names)).decode()}
        found = self._connection.execute(_sql("outbox_waiting"), given).fetchall()
        return [name.decode() for (name,) in found if _is_text(name)]

    def count(self, limit: int) -> int:
        """See `Outbox.count`."""
        (found,) = self._connection.execute(_sql("outbox_count"), {"limit": limit}).fetchone()
        return int(found)

    def take(self, name: str, rows_max: int, bytes_max: int) -> Taken:
        """See `Outbox.take`."""
        rows, size, last = [], 0, 0
        for last, *row in self._connection.execute(_sql("outbox_first"), {"name": name, "rows": rows_max}):  # noqa: B007
            rows.append(_row(row))
            size += sum(len(text) for text in (row[2], row[3], row[4]) if text)
            if size >= bytes_max:
                break
        if rows:
            self._connection.execute(_sql("outbox_remove"), {"name": name, "id": rows[-1].id})
        return Taken(rows, last)


def _row(row: Sequence[Any]) -> OutboxRow:
    """Keep what is no UTF-8 as surrogates, by which the hub finds it out and `Rejected.add` gives it back."""
    row_id, event_type, data, key, headers, partition, created_at = row
    return OutboxRow(row_id, event_type, _text(data), _maybe(key), _maybe(headers), partition, _text(created_at))


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")


def _maybe(value: bytes | None) -> str | None:
    return None if value is None else _text(value)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
