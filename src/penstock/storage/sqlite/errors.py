"""Translation of SQLite's errors; the only module that knows their codes."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import DatabaseUnavailable, DiskFull, SchemaMissing, Unavailable
from penstock.storage.sqlite import SQLITE


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise Penstock's errors for those of SQLite.

    Raises:
        DiskFull: the disk is full; nothing was written.
        DatabaseUnavailable: locked too long, damaged, or the file cannot be read or written now.
        SchemaMissing: a table does not exist.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        if (translation := _translate(error)) is None:
            raise
        raise translation from error


def _translate(error: sqlite3.DatabaseError) -> Unavailable | SchemaMissing | None:
    """Return Penstock's error for *error*; None if *error* is not about the state of the database."""
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        reason = f"the file is not a SQLite database, or its beginning is damaged: {error} ({name})"
        return DatabaseUnavailable(reason=reason, retry_after=60)
    if name.startswith("SQLITE_CORRUPT"):
        return DatabaseUnavailable(reason=f"the file is damaged, put a backup back: {error} ({name})", retry_after=60)
    if name in ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"):  # The latter: no space for the index of the write-ahead log.
        return DiskFull(reason=str(error), retry_after=5)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")):
        return DatabaseUnavailable(reason=f"{error} ({name})", retry_after=1)
    if "no such table: penstock_" in str(error):
        return SchemaMissing(found=0, wanted=SQLITE.version)
    return None
