"""The store in one SQLite file."""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import DatabaseUnavailable, DatabaseUnsuitable
from penstock.storage.cold.log import TieredLog
from penstock.storage.sqlite import SQLITE
from penstock.storage.sqlite.backup import find_mark
from penstock.storage.sqlite.connection import Readers, Writer, connect, limit_time, log_of, translate_errors
from penstock.storage.sqlite.doctor import LONG_TRANSACTION_SECONDS, diagnose, read_schema_version
from penstock.storage.sqlite.log.events import SqliteLog
from penstock.storage.sqlite.log.outbox import SqliteOutbox
from penstock.storage.sqlite.registry import SqliteRegistry
from penstock.storage.statements import SqlRunner
from penstock.storage.store import AppendPlan, ConnectionCounts, DoctorFinding, Replicas, StoreSpace, Tx

if TYPE_CHECKING:
    from penstock.storage.cold.tier import ColdTier

ENCODING = "UTF-8"


class SqliteTx(Tx):
    """Repositories on one connection to SQLite."""

    def __init__(self, connection: sqlite3.Connection, tier: "ColdTier | None" = None) -> None:
        self._connection = connection
        self._tier = tier

    @cached_property
    def _sql(self) -> SqlRunner:
        return SqlRunner(SQLITE, self._connection)

    @cached_property
    def registry(self) -> SqliteRegistry:
        """Event types, their partitions and their schemas."""
        return SqliteRegistry(self._sql)

    @cached_property
    def log(self) -> TieredLog:
        """Events of partitions, wherever they are."""
        return TieredLog(SqliteLog(self._connection), self, self._tier)

    @cached_property
    def outbox(self) -> SqliteOutbox:
        """Rows that services have committed for the hub to move into the log."""
        return SqliteOutbox(self._connection)


class SqliteStore:
    """Store in one SQLite file, in WAL mode; every commit is on disk before `write` returns."""

    poll_interval = 0.010
    calm_poll_interval = 0.070
    batch_events_max = 5_000
    replicas: Replicas | None = None

    def __init__(self, path: Path, cold: "ColdTier | None" = None) -> None:
        self.cold = cold
        self.path = path
        self.url = f"sqlite:///{path}"
        self._readers = Readers(path)
        self._writer = Writer(path)

    @contextmanager
    def write(self, *, patient: bool = True, plan: AppendPlan | None = None) -> Iterator[SqliteTx]:
        """Open a write transaction: see `Store.write`."""
        with self._writer.transaction(patient=patient) as connection:
            tx = SqliteTx(connection, self.cold)
            if plan is not None and not tx.outbox.find_waiting(plan.event_types):
                tx.locked_heads = tx.log.find_heads(plan.partition_ids, lock=True)
            yield tx

    @contextmanager
    def read(self, *, timeout: float | None = None) -> Iterator[SqliteTx]:
        """Lend a connection without a transaction: see `Store.read`."""
        with self._readers.lend() as connection, limit_time(connection, timeout):
            yield SqliteTx(connection, self.cold)

    def count_connections(self) -> ConnectionCounts:
        """Return how many connections read: see `Store.count_connections`. One more writes."""
        return self._readers.count()

    def measure_space(self, *, timeout: float) -> StoreSpace:  # noqa: ARG002
        """Return the size of the file and of its write-ahead log, and the free space beside them."""
        try:
            disk = shutil.disk_usage(self.path.parent)
            used = sum(each.stat().st_size for each in (self.path, log_of(self.path)) if each.exists())
        except OSError as error:
            raise DatabaseUnavailable(reason=str(error), retry_after=1) from error
        return StoreSpace(used, disk.free, disk.total)

    def forget_deleted(self) -> bool:
        """Empty the write-ahead log: see `Store.forget_deleted`."""
        with closing(connect(self.path, writes=False)) as connection, translate_errors():
            (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not is_busy

    def watch(self) -> "SqliteWatcher":
        """Return a watcher for one thread."""
        return SqliteWatcher(connect(self.path, writes=False))

    def migrate(self) -> Sequence[str]:
        """Migrate the tables: see `Store.migrate`."""
        if not self.path.parent.is_dir():
            reason = f"there is no directory {self.path.parent}; create it, or correct the name of the file"
            raise DatabaseUnavailable(reason=reason)
        done = []
        with self._writer.transaction() as connection:
            (encoding,) = connection.execute("PRAGMA encoding").fetchone()
            if encoding != ENCODING:
                raise DatabaseUnsuitable.of("encoding-unsuitable", found=encoding, wanted=ENCODING)
            connection.execute(
                "CREATE TABLE IF NOT EXISTS penstock_migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL)"
            )
            found = read_schema_version(connection)
            for step in SQLITE.pending(found):
                for sql in _split(step.sql):
                    connection.execute(sql)
                connection.execute("INSERT INTO penstock_migration VALUES (?, ?)", (step.number, step.name))
                done.append(f"{step.number:04} {step.name}")
        return done

    def check(self, *, restoring: bool = False) -> None:
        """Check the version of the tables, and whether the file is a backup: see `Store.check`."""
        self._writer.check_file()
        with self._readers.lend() as connection:
            found, made_at = read_schema_version(connection), find_mark(connection)
        if SQLITE.pending(found):
            raise DatabaseUnsuitable.of("schema-missing", found=found, wanted=SQLITE.version)
        if made_at is not None and not restoring:
            raise DatabaseUnsuitable.of("backup-not-announced", made_at=made_at)

    def doctor(self, *, long_transaction_seconds: float = LONG_TRANSACTION_SECONDS) -> Sequence[DoctorFinding]:
        """Check the database: see `Store.doctor`."""
        return diagnose(self.path, SQLITE.version, long_transaction_seconds)

    def close(self) -> None:
        """Release all connections."""
        self._readers.close()
        self._writer.close()


class SqliteWatcher:
    """Detects by SQLite's data version whether another connection has committed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._seen = -1

    def has_changed(self) -> bool:
        """Return whether another connection has committed since the last call."""
        with translate_errors():
            (found,) = self._connection.execute("PRAGMA data_version").fetchone()
        before, self._seen = self._seen, found
        return bool(found != before)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _split(script: str) -> Iterator[str]:
    """Split a script into statements, since `executescript` would commit the transaction it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
