"""Looks at what can be wrong with an SQLite file that holds events, without changing anything in it."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from penstock.storage.findings import outbox_finding, rejected_finding
from penstock.storage.sqlite.errors import translated
from penstock.storage.store import Finding

LONG_TRANSACTION_SECONDS: Final = 3.0
WAL_MIB_MAX: Final = 256
_TRIES: Final = 3


def findings(path: Path, wanted: int, long_transaction_seconds: float) -> Sequence[Finding]:
    """Return what was found: reachability, schema, durability, long transactions, the outbox.

    Durability is missing where no hub has made tables yet, since its first connection sets it, and so is what there are
    no tables for; a service may have made the outbox. On a plain connection of its own: the hub's would set what is to
    be looked at.
    """
    address = f"{path.absolute().as_uri()}?mode=rw"
    with (
        translated(),
        closing(
            sqlite3.connect(address, uri=True, timeout=long_transaction_seconds, isolation_level=None)
        ) as connection,
    ):

        def one(sql: str) -> Any:
            return connection.execute(sql).fetchone()[0]

        found = schema_found(connection)
        always = [
            Finding("database", True, f"sqlite:///{path}, SQLite {sqlite3.sqlite_version}"),
            Finding("schema", found == wanted, f"version {found}, this Penstock needs {wanted}"),
        ]
        if found:
            always.append(_durability(one("PRAGMA journal_mode")))
        always.append(_long_transactions(connection, path, long_transaction_seconds))
        if _is_table(connection, "penstock_outbox"):
            always.append(outbox_finding(one("SELECT count(*) FROM penstock_outbox")))
        if found:
            always.append(rejected_finding(one("SELECT count(*) FROM penstock_rejected")))
        return always


def schema_found(connection: sqlite3.Connection) -> int:
    """Return the number of the last migration that was run, 0 before the first."""
    if not _is_table(connection, "penstock_migration"):
        return 0
    return int(connection.execute("SELECT coalesce(max(number), 0) FROM penstock_migration").fetchone()[0])


def _is_table(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def _durability(journal: str) -> Finding:
    """Judge the journal mode, which stands in the file; how a commit is synced is each connection's own choice."""
    if journal != "wal":
        says = f"journal_mode={journal} in the file, which the hub sets to wal when it starts: something changes it"
        return Finding("durability", False, says)
    return Finding("durability", True, "journal_mode=wal in the file; the hub syncs each commit, if the disk obeys")


def _long_transactions(connection: sqlite3.Connection, path: Path, limit_seconds: float) -> Finding:
    wal = Path(f"{path}-wal")
    wal_mib = wal.stat().st_size / 2**20 if wal.exists() else 0.0
    kept = f"the write-ahead log has {wal_mib:.1f} MiB"
    if _is_held(connection):
        says = f"another transaction has held the file for more than {limit_seconds:g} s, nobody else can write; {kept}"
        return Finding("long transactions", False, says)
    if wal_mib >= WAL_MIB_MAX:
        return Finding("long transactions", False, f"{kept}: a reader that does not end keeps it from being cut")
    return Finding("long transactions", True, f"none holds the file for more than {limit_seconds:g} s; {kept}")


def _is_held(connection: sqlite3.Connection) -> bool:
    """Tell whether one transaction, rather than many in turn, kept us waiting for the connection's whole timeout."""
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
