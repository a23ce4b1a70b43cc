"""Checks of a SQLite file for `penstock doctor`, which change nothing in it."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from stat import S_IMODE, S_IROTH, S_IWOTH, S_IXOTH
from typing import Any, Final

from penstock.storage.sqlite.backup import find_mark
from penstock.storage.sqlite.connection import log_of, translate_errors
from penstock.storage.store import DoctorFinding, check_outbox, check_rejected

LONG_TRANSACTION_SECONDS: Final = 3.0
WAL_MIB_MAX: Final = 256
_TRIES: Final = 3


def diagnose(path: Path, wanted: int, long_transaction_seconds: float) -> Sequence[DoctorFinding]:
    """Check reachability, schema, durability, long transactions and the outbox.

    Before a hub has created the tables, there is no finding about durability, which its first connection sets, nor
    about tables that are missing; a service may have created the outbox. The checks use a plain connection of their
    own, since the hub's connections set what is checked.
    """
    address = f"{path.absolute().as_uri()}?mode=rw"
    with (
        translate_errors(),
        closing(
            sqlite3.connect(address, uri=True, timeout=long_transaction_seconds, isolation_level=None)
        ) as connection,
    ):

        def one(sql: str) -> Any:
            return connection.execute(sql).fetchone()[0]

        found = read_schema_version(connection)
        findings = [
            DoctorFinding("database", True, f"sqlite:///{path}, SQLite {sqlite3.sqlite_version}"),
            DoctorFinding("schema", found == wanted, f"version {found}, this Penstock needs {wanted}"),
        ]
        if (made_at := find_mark(connection)) is not None:
            says = f"the file is a backup of {made_at}: run `penstock restored` before a hub serves it"
            findings.append(DoctorFinding("backup", False, says))
            findings.append(DoctorFinding("durability", True, "the hub that serves the backup sets WAL mode"))
        elif found:
            findings.append(_durability(one("PRAGMA journal_mode")))
        findings.append(_long_transactions(connection, path, long_transaction_seconds))
        if _is_table(connection, "penstock_outbox"):
            findings.append(check_outbox(one("SELECT count(*) FROM penstock_outbox")))
        if found:
            findings.append(check_rejected(one("SELECT count(*) FROM penstock_rejected")))
        if _is_table(connection, "penstock_token") and one("SELECT count(*) FROM penstock_token"):
            findings.extend(_find_exposed(path))
        return findings


def read_schema_version(connection: sqlite3.Connection) -> int:
    """Return the number of the last migration, 0 before the first."""
    if not _is_table(connection, "penstock_migration"):
        return 0
    return int(connection.execute("SELECT coalesce(max(number), 0) FROM penstock_migration").fetchone()[0])


def _find_exposed(path: Path) -> Iterator[DoctorFinding]:
    """Find files of the database that every user of the machine may read or write."""
    place = path.resolve()
    if not all(each.stat().st_mode & S_IXOTH for each in place.parents):
        return
    for file in (place, log_of(place)):
        if file.exists() and (mode := file.stat().st_mode) & (S_IROTH | S_IWOTH):
            does = "write" if mode & S_IWOTH else "read"
            says = (
                f"{file} has mode {S_IMODE(mode):04o}: every user of this machine may {does} events and digests of "
                f"tokens; run `chmod o= {place}*`"
            )
            yield DoctorFinding("file mode", False, says)
            return


def _is_table(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def _durability(journal: str) -> DoctorFinding:
    """Check the journal mode, which the file records; each connection chooses how it syncs a commit."""
    if journal != "wal":
        says = f"journal_mode={journal} in the file, which the hub sets to wal when it starts: something changes it"
        return DoctorFinding("durability", False, says)
    return DoctorFinding(
        "durability", True, "journal_mode=wal in the file; the hub syncs each commit, if the disk obeys"
    )


def _long_transactions(connection: sqlite3.Connection, path: Path, limit_seconds: float) -> DoctorFinding:
    wal = log_of(path)
    wal_mib = wal.stat().st_size / 2**20 if wal.exists() else 0.0
    kept = f"the write-ahead log has {wal_mib:.1f} MiB"
    if _is_held(connection):
        says = (
            f"another transaction has held the file for more than {limit_seconds:g} s, "
            f"so no other connection can write; {kept}"
        )
        return DoctorFinding("long transactions", False, says)
    if wal_mib >= WAL_MIB_MAX:
        return DoctorFinding("long transactions", False, f"{kept}: a reader that does not end keeps it from being cut")
    return DoctorFinding("long transactions", True, f"none holds the file for more than {limit_seconds:g} s; {kept}")


def _is_held(connection: sqlite3.Connection) -> bool:
    """Return whether one transaction, and not several in turn, locked the file for the whole timeout."""
    for _ in range(_TRIES):
        (before,) = connection.execute("PRAGMA data_version").fetchone()
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if connection.execute("PRAGMA data_version").fetchone() == (before,):
                return True
        else:
            connection.execute("ROLLBACK")
            return False
    return False
