"""Translation of PostgreSQL's errors; the only module that knows them."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from penstock.errors import DatabaseUnavailable, DatabaseUnsuitable, DiskFull, PenstockError
from penstock.storage.postgres import POSTGRES

_TEMPORARY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.IdleInTransactionSessionTimeout,
)
"""Errors of the database's state, not of the write: it succeeds once an operator has repaired the database."""


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise Penstock's errors for those of PostgreSQL.

    Raises:
        DiskFull: the disk is full; nothing was written.
        DatabaseUnavailable: no connection, shutdown, a read-only database, a missing privilege, a deadlock, a lock
            timeout, or a transaction that was idle for too long.
        DatabaseUnsuitable: a table does not exist.
    """
    try:
        yield
    except psycopg.Error as error:
        raise _translate(error) from error


def _translate(error: psycopg.Error) -> PenstockError | psycopg.Error:
    reason = " ".join(str(error).split())
    if isinstance(error, psycopg.errors.DiskFull):
        return DiskFull(reason=reason, retry_after=5)
    if isinstance(error, psycopg.errors.UndefinedTable) and "penstock_" in reason:
        return DatabaseUnsuitable.of("schema-missing", found=0, wanted=POSTGRES.version)
    if isinstance(error, _TEMPORARY):
        return DatabaseUnavailable(reason=reason, retry_after=1)
    return error
