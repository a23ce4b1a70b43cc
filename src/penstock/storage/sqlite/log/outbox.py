"""The outbox in SQLite.

One transaction writes at a time, so ids are in commit order and no row commits late. Values that a service has inserted
as bytes, or as text that is not UTF-8, are rejected and kept byte for byte.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from penstock.storage.log.outbox import (
    OutboxCount,
    OutboxRepository,
    OutboxRow,
    RejectedRow,
    TakenRows,
    select_rejected,
)
from penstock.storage.sqlite import SQLITE

_sql: Final = SQLITE.statements
_ANY_LENGTH: Final = 2**31 - 1


class SqliteOutbox(OutboxRepository):
    """The outbox in SQLite."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def find_waiting(self, names: Iterable[str] | None) -> Sequence[str]:
        """Return which event types have waiting rows."""
        asked = None if names is None else list(names)
        given = {"names": None if asked is None else msgspec.json.encode(asked).decode()}
        rows = self._connection.execute(_sql["outbox_waiting"], given).fetchall()
        cut = [name for name in asked or () if "\0" in name]  # SQLite ends a text of JSON at a NUL.
        return [name.decode() for (name,) in rows if _is_utf8(name)] + [name for name in cut if self._has_rows(name)]

    def find_waiting_and_heads(
        self,
        names: Iterable[str] | None,
        partition_ids: Sequence[int],  # noqa: ARG002 - heads take a statement of their own.
    ) -> tuple[Sequence[str], None]:
        """Return which event types have waiting rows, and no heads."""
        return self.find_waiting(names), None

    def _has_rows(self, name: str) -> bool:
        return self._connection.execute(_sql["outbox_first"], {"name": name, "rows": 1}).fetchone() is not None

    def take(self, name: str, rows_max: int, bytes_max: int) -> TakenRows:
        """Remove the first rows of one event type and return them."""
        rows, size, last = [], 0, 0
        for last, *row in self._connection.execute(_sql["outbox_first"], {"name": name, "rows": rows_max}):  # noqa: B007
            rows.append(_read_row(row))
            size += sum(len(text) for text in (row[2], row[3], row[4]) if text)
            if size >= bytes_max:
                break
        if rows:
            self._connection.execute(_sql["outbox_remove"], {"name": name, "id": rows[-1].id})
        return TakenRows(rows, last)

    def count(self, limit: int) -> OutboxCount:
        """Return how many rows wait and how many were rejected."""
        waiting, since = self._connection.execute(_sql["outbox_count"], {"limit": limit}).fetchone()
        (rejected,) = self._connection.execute(_sql["rejected_count"], {"limit": limit}).fetchone()
        return OutboxCount(waiting, rejected, since)

    def reject(self, rows: Sequence[tuple[OutboxRow, str]], at: int) -> None:
        """Record rows that cannot be published."""
        given = [
            (row.event_type, _to_bytes(row.data), _to_bytes(row.key), _to_bytes(row.headers), row.partition,
             _to_bytes(row.created_at), at, reason)
            for row, reason in rows
        ]  # fmt: skip
        self._connection.executemany(_sql["rejected_add"], given)

    def find_rejected(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> Sequence[int]:
        """Return the ids of rejected rows, sorted."""
        rows = self._connection.execute(_sql["rejected_find"], select_rejected(ids, event_type))
        return [row_id for (row_id,) in rows]

    def list_rejected(
        self,
        limit: int,
        *,
        newest: bool = True,
        ids: Sequence[int] | None = None,
        event_type: str | None = None,
        after: int | None = None,
    ) -> Sequence[RejectedRow]:
        """Return the newest or oldest rejected rows."""
        given = select_rejected(ids, event_type) | {"limit": limit, "newest": newest, "after": after}
        with self._values_of_any_length():
            rows = self._connection.execute(_sql["rejected_list"], given).fetchall()
        return [RejectedRow(*map(_to_text, row)) for row in rows]

    def retry_rejected(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> int:
        """Put rejected rows back into the outbox."""
        self._connection.execute(_sql["rejected_retry"], select_rejected(ids, event_type))
        return self.delete_rejected(ids=ids, event_type=event_type)

    def delete_rejected(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> int:
        """Delete rejected rows."""
        return self._connection.execute(_sql["rejected_delete"], select_rejected(ids, event_type)).rowcount

    def expire_rejected(self, before: int, rows: int) -> int:
        """Delete rows that were rejected long ago."""
        return self._connection.execute(_sql["rejected_expire"], {"before": before, "rows": rows}).rowcount

    @contextmanager
    def _values_of_any_length(self) -> Iterator[None]:
        """Read values longer than a reader's limit: a row may have been rejected for its size."""
        before = self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _ANY_LENGTH)
        try:
            yield
        finally:
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


def _read_row(row: Sequence[Any]) -> OutboxRow:
    """Decode a row; bytes that are not UTF-8 become surrogates, which the hub rejects and `reject` encodes again."""
    row_id, event_type, data, key, headers, partition, created_at = row
    return OutboxRow(
        row_id, event_type, _decode(data), _decode_if_any(key), _decode_if_any(headers), partition, _decode(created_at)
    )


def _decode(value: bytes) -> str:
    return value.decode(errors="surrogateescape")


def _decode_if_any(value: bytes | None) -> str | None:
    return None if value is None else _decode(value)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _to_bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode(errors="surrogateescape")


def _to_text(value: Any) -> Any:
    """Return bytes as text, and a float, such as a partition of 0.5, as its text."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return str(value) if isinstance(value, float) else value
