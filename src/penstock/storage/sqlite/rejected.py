"""Rejected rows in SQLite. What a service has inserted as bytes, or as text that is no UTF-8, is kept byte for byte."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import msgspec

from penstock.storage.outbox import OutboxRow, RejectedRow
from penstock.storage.statements import statement

_sql: Final = partial(statement, __package__)
_ANY_LENGTH: Final = 2**31 - 1


class SqliteRejected:
    """See `penstock.storage.outbox.Rejected`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, rows: Sequence[tuple[OutboxRow, str]], at: int) -> None:
        """See `Rejected.add`."""
        given = [
            (row.event_type, _bytes(row.data), _bytes(row.key), _bytes(row.headers), row.partition,
             _bytes(row.created_at), at, reason)
            for row, reason in rows
        ]  # fmt: skip
        self._connection.executemany(_sql("rejected_add"), given)

    def count(self, limit: int) -> int:
        """See `Rejected.count`."""
        (found,) = self._connection.execute(_sql("rejected_count"), {"limit": limit}).fetchone()
        return int(found)

    def find(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> Sequence[int]:
        """See `Rejected.find`."""
        return [row_id for (row_id,) in self._connection.execute(_sql("rejected_find"), _chosen(ids, event_type))]

    def list(
        self,
        limit: int,
        *,
        newest: bool = True,
        ids: Sequence[int] | None = None,
        event_type: str | None = None,
    ) -> Sequence[RejectedRow]:
        """See `Rejected.list`."""
        given = _chosen(ids, event_type) | {"limit": limit, "newest": newest}
        with self._values_of_any_length():
            found = self._connection.execute(_sql("rejected_list"), given).fetchall()
        return [RejectedRow(*map(_shown, row)) for row in found]

    def retry(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> int:
        """See `Rejected.retry`."""
        self._connection.execute(_sql("rejected_retry"), _chosen(ids, event_type))
        return self.delete(ids=ids, event_type=event_type)

    def delete(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> int:
        """See `Rejected.delete`."""
        return self._connection.execute(_sql("rejected_delete"), _chosen(ids, event_type)).rowcount

    @contextmanager
    def _values_of_any_length(self) -> Iterator[None]:
        """Read values that are longer than a reader's limit: a row may have been rejected for its size."""
        before = self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _ANY_LENGTH)
        try:
            yield
        finally:
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


def _chosen(ids: Sequence[int] | None, event_type: str | None) -> dict[str, Any]:
    return {"ids": None if ids is None else msgspec.json.encode(list(ids)).decode(), "event_type": event_type}


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode(errors="surrogateescape")


def _shown(value: Any) -> Any:
    """Return bytes as text, and what is neither a number nor text, such as a partition of 0.5, as its text."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return str(value) if isinstance(value, float) else value
