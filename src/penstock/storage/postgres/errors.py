"""Tells what a failure of PostgreSQL means to us: the one place where its codes are known."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from penstock.errors import DatabaseUnavailable, DiskFull, PenstockError, SchemaMissing
from penstock.storage.statements import version

_NOT_NOW = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.IdleInTransactionSessionTimeout,
)
"""They say nothing about what was to be written: once somebody has mended the database, it can be."""


@contextmanager
def translated() -> Iterator[None]:
    """Raise our errors for PostgreSQL's.

    Raises:
        DiskFull: no room; nothing was written.
        DatabaseUnavailable: no connection, shutting down, read-only, a privilege that is missing, a deadlock, a lock
            that took too long, or a transaction that was left alone for too long.
        SchemaMissing: a table is not there.
    """
    try:
        yield
    except psycopg.Error as error:
        raise _meaning(error) from error


def _meaning(error: psycopg.Error) -> PenstockError | psycopg.Error:
    reason = " ".join(str(error).split())
    if isinstance(error, psycopg.errors.DiskFull):
        return DiskFull(reason=reason, retry_after=5)
    if isinstance(error, psycopg.errors.UndefinedTable) and "penstock_" in reason:
        return SchemaMissing(found=0, wanted=version(__package__))
    if isinstance(error, _NOT_NOW):
        return DatabaseUnavailable(reason=reason, retry_after=1)
    return error
