"""Detects cheaply whether anything was written to a PostgreSQL cluster.

Every commit that changes something moves the end of the write-ahead log. The watcher polls that position on its own
connection; while it stands still, no reader needs to poll.

Invariants:
    The log moves before its commit becomes visible: after a move, everything counts as changed for a while.
    Everything also counts as changed now and then: a commit that waits for a standby becomes visible long after that.
"""

import time
from typing import Final

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from penstock.storage.postgres.errors import translate_errors

WHILE_SECONDS: Final = 1.0
LATE_SECONDS: Final = 30.0
"""After a move, commits may become visible for this long; polls come every `OFTEN_INTERVAL` then, …"""
OFTEN_INTERVAL: Final = 1.0
SELDOM_INTERVAL: Final = 5.0
"""… and every `SELDOM_INTERVAL` afterwards."""
_WHERE: Final = b"SELECT pg_current_wal_insert_lsn()"


class PostgresWatcher:
    """Watcher of a PostgreSQL cluster."""

    def __init__(self, conninfo: str) -> None:
        with translate_errors():
            self._connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None, connect_timeout=5)
        self._seen: bytes | None = None
        self._moved_at = self._told_at = -LATE_SECONDS

    def has_changed(self) -> bool:
        """Return whether anything may have been committed since the last call."""
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
        # Without a cursor, which costs twice as much as this frequent query.
        with translate_errors():
            result = self._connection.pgconn.exec_(_WHERE)
            if result.status != ExecStatus.TUPLES_OK:
                raise error_from_result(result)
            return result.get_value(0, 0)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
