"""The outbox in SQLite: there is one writer at a time, so ids are given in commit order and nothing can come late."""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from penstock.storage.statements import statement
from penstock.storage.store import OutboxRow

_sql: Final = partial(statement, __package__)


class SqliteOutbox:
    """See `penstock.storage.store.Outbox`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def waiting(self, names: Iterable[str] | None) -> Sequence[str]:
        """See `Outbox.waiting`."""
        given = {"names": None if names is None else msgspec.json.encode(list(names)).decode()}
        return [name for (name,) in self._connection.execute(_sql("outbox_waiting"), given).fetchall()]

    def take(self, name: str, limit: int) -> Sequence[OutboxRow]:
        """See `Outbox.take`."""
        rows = self._connection.execute(_sql("outbox_take"), {"name": name, "limit": limit}).fetchall()
        return sorted(OutboxRow(*row) for row in rows)

    def reject(self, rows: Sequence[tuple[OutboxRow, str]], at: int) -> None:
        """See `Outbox.reject`."""
        self._connection.executemany(_sql("outbox_reject"), [(*row[1:], at, reason) for row, reason in rows])
