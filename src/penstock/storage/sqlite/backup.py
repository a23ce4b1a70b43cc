"""Backups of a SQLite file: copies it while hubs and services use it, checks copies, and marks them as backups.

A copy is marked by a table, so that no hub serves it before `penstock restored` has given its feeds new epochs.
"""

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

from penstock.errors import DatabaseUnavailable
from penstock.storage.sqlite.connection import BUSY_TIMEOUT, connect, log_of, translate_errors

STEP_PAGES: Final = 256
"""Pages that are copied at a time: 4 MiB of a file that a hub has created."""


def copy_database(source: Path, target: Path, report: Callable[[int, int], None]) -> None:
    """Copy the database in *source* to the empty file *target*, as it is at the beginning of the copy.

    Others read and write *source* meanwhile. The copy holds one snapshot, so the write-ahead log of *source* grows by
    all commits until the copy ends. An exception of *report* ends the copy.

    Args:
        source: The file to copy.
        target: An empty file; afterwards it is no longer empty, and not yet on disk.
        report: Called after each step with the number of copied bytes and of all bytes.

    Raises:
        DatabaseUnavailable: *source* is damaged or cannot be read.
        DiskFull: there is no space for the copy.
    """
    with (
        translate_errors(),
        closing(connect(source, writes=False)) as connection,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        # Without a transaction of its own, a copy starts again whenever somebody else commits.
        connection.execute("BEGIN")
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        connection.backup(
            copy,
            pages=STEP_PAGES,
            progress=lambda _, left, pages: report((pages - left) * page_bytes, pages * page_bytes),
        )


def mark_backup(copy: Path) -> None:
    """Mark the file *copy* as a backup that was made now; a mark that it has already stays.

    The file leaves WAL mode, so that it can be read from read-only disks; a hub sets WAL mode again.
    """
    with (
        translate_errors(),
        closing(sqlite3.connect(copy, timeout=BUSY_TIMEOUT, isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE IF NOT EXISTS penstock_backup (made_at TEXT NOT NULL)")
        connection.execute(
            "INSERT INTO penstock_backup SELECT strftime('%Y-%m-%dT%H:%M:%SZ', 'now')"
            " WHERE NOT EXISTS (SELECT 1 FROM penstock_backup)"
        )
        connection.execute("COMMIT")


def find_mark(connection: sqlite3.Connection) -> str | None:
    """Return when the backup was made, such as `2026-11-29T02:00:00Z`; None if the database is no backup."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'penstock_backup'").fetchone() is None:
        return None
    (made_at,) = connection.execute("SELECT made_at FROM penstock_backup").fetchone()
    return str(made_at)


def has_log_of_another_file(path: Path) -> bool:
    """Return whether a write-ahead log lies beside a backup that was put back: that of the file that it replaces.

    SQLite would apply that log to the backup, which would restore the lost database, or a damaged one. Nothing writes
    to a backup before it is announced, but for migrations, and these leave no log behind.
    """
    log = log_of(path)
    if not (log.exists() and log.stat().st_size):
        return False
    try:
        with closing(sqlite3.connect(_address_without_log(path), uri=True)) as connection:
            return find_mark(connection) is not None
    except sqlite3.DatabaseError:  # Others write to the file, so it is no such backup.
        return False


def check_copy(copy: Path) -> None:
    """Check every page, row and index of the file *copy*, which no other process uses.

    Raises:
        DatabaseUnavailable: the copy is damaged; says where.
    """
    with (
        translate_errors(),
        closing(sqlite3.connect(_address_without_log(copy), uri=True, check_same_thread=False)) as connection,
        ThreadPoolExecutor(1) as threads,
    ):
        checking = threads.submit(lambda: connection.execute("PRAGMA integrity_check(3)").fetchall())
        try:
            found = checking.result()
        except BaseException:
            connection.interrupt()  # Ctrl-C is seen here, and not in the thread.
            raise
    if found != [("ok",)]:
        raise DatabaseUnavailable(reason="; ".join(text for (text,) in found), retry_after=60)


def _address_without_log(path: Path) -> str:
    """Return the URI that opens *path* without locks and without its write-ahead log."""
    return f"{path.absolute().as_uri()}?mode=ro&immutable=1"
