"""Rejected rows in PostgreSQL."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import psycopg

from penstock.storage.outbox import OutboxRow, RejectedRow
from penstock.storage.statements import statement

_sql: Final[Any] = partial(statement, __package__)


class PostgresRejected:
    """See `penstock.storage.outbox.Rejected`."""

    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self._connection = connection

    def add(self, rows: Sequence[tuple[OutboxRow, str]], at: int) -> None:
        """See `Rejected.add`."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_sql("rejected_add"), [(*row[1:], at, reason) for row, reason in rows])

    def count(self, limit: int) -> int:
        """See `Rejected.count`."""
        (found,) = self._connection.execute(_sql("rejected_count"), {"limit": limit}).fetchone() or (0,)
        return int(found)

    def find(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> Sequence[int]:
        """See `Rejected.find`."""
        return [row_id for (row_id,) in self._run("rejected_find", ids, event_type).fetchall()]

    def list(
        self,
        limit: int,
        *,
        newest: bool = True,
        ids: Sequence[int] | None = None,
        event_type: str | None = None,
    ) -> Sequence[RejectedRow]:
        """See `Rejected.list`."""
        found = self._run("rejected_list", ids, event_type, limit=limit, newest=newest)
        return [RejectedRow(*row) for row in found.fetchall()]

    def retry(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> int:
        """See `Rejected.retry`."""
        return self._run("rejected_retry", ids, event_type).rowcount

    def delete(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> int:
        """See `Rejected.delete`."""
        return self._run("rejected_delete", ids, event_type).rowcount

    def _run(
        self, statement_name: str, ids: Sequence[int] | None, event_type: str | None, **given: Any
    ) -> "psycopg.Cursor[tuple[Any, ...]]":
        chosen = {"ids": None if ids is None else list(ids), "event_type": event_type}
        return self._connection.execute(_sql(statement_name), given | chosen)
