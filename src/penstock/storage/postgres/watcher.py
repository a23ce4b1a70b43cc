"""Tells cheaply whether anything was written to a PostgreSQL cluster.

Every commit that changes something moves the place where the write-ahead log goes on. That place is asked for, on a
connection of its own; while it stands still there is nothing to look for.

Invariants:
    The log moves before what was committed can be seen: after a move everything counts as changed for a while.
    However that may be, everything counts as changed now and then: a commit that waits for a standby can be seen long
    after its move.
"""

import time
from typing import Final

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from penstock.storage.postgres.errors import translated

WHILE_SECONDS: Final = 1.0
LATE_SECONDS: Final = 30.0
"""For so long after a move commits may still come to be seen …"""
OFTEN_INTERVAL: Final = 1.0
"""… and are looked for this often; …"""
SELDOM_INTERVAL: Final = 5.0
"""… afterwards this often."""
_WHERE: Final = b"SELECT pg_current_wal_insert_lsn()"


class PostgresWatcher:
    """See `penstock.storage.store.Watcher`."""

    def __init__(self, conninfo: str) -> None:
        with translated():
            self._connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None, connect_timeout=5)
        self._seen: bytes | None = None
        self._moved_at = self._told_at = -LATE_SECONDS

    def changed(self) -> bool:
        """See `Watcher.changed`."""
        where = self._where()
        now = time.monotonic()
        if where != self._seen:
            self._seen, self._moved_at = where, now
        since = now - self._moved_at
        if since < WHILE_SECONDS or now - self._told_at >= (
            OFTEN_INTERVAL if since < LATE_SECONDS else SELDOM_INTERVAL
        ):
            self._told_at = now
            return True
        return False

    def _where(self) -> bytes | None:
        # Without a cursor: this is asked all day long, and a cursor costs twice what the question does.
        with translated():
            result = self._connection.pgconn.exec_(_WHERE)
            if result.status != ExecStatus.TUPLES_OK:
                raise error_from_result(result)
            return result.get_value(0, 0)

    def close(self) -> None:
        """See `Watcher.close`."""
        self._connection.close()
