"""Tells what a failure of SQLite means to us: the one place where its codes are known."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import DatabaseUnavailable, DiskFull, SchemaMissing, Unavailable
from penstock.storage.statements import version


@contextmanager
def translated() -> Iterator[None]:
    """Raise our errors for SQLite's.

    Raises:
        DiskFull: no room; nothing was written.
        DatabaseUnavailable: locked too long, damaged, or the file cannot be read or written now.
        SchemaMissing: a table is not there.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        if (meaning := _meaning(error)) is None:
            raise
        raise meaning from error


def _meaning(error: sqlite3.DatabaseError) -> Unavailable | SchemaMissing | None:
    """Return our error for *error*; None where it is not one of the database's state."""
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        reason = f"the file is not a SQLite database, or its beginning is damaged: {error} ({name})"
        return DatabaseUnavailable(reason=reason, retry_after=60)
    if name.startswith("SQLITE_CORRUPT"):
        return DatabaseUnavailable(reason=f"the file is damaged, put a backup back: {error} ({name})", retry_after=60)
    if name in ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"):  # The latter: no room for the index of the write-ahead log.
        return DiskFull(reason=str(error), retry_after=5)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")):
        return DatabaseUnavailable(reason=f"{error} ({name})", retry_after=1)
    if "no such table: penstock_" in str(error):
        return SchemaMissing(found=0, wanted=version(__package__))
    return None
