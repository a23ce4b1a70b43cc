"""The store in one SQLite file."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import SchemaMissing, SchemaTooNew
from penstock.storage.sqlite.connection import Readers, Writer, connect
from penstock.storage.sqlite.errors import translated
from penstock.storage.sqlite.events import SqliteEvents
from penstock.storage.sqlite.feeds import SqliteFeeds
from penstock.storage.sqlite.outbox import SqliteOutbox
from penstock.storage.sqlite.positions import SqlitePositions
from penstock.storage.statements import migrations, version
from penstock.storage.store import Finding

PACKAGE = __package__


class SqliteTx:
    """What can be done on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.events = SqliteEvents(connection)
        self.feeds = SqliteFeeds(connection)
        self.outbox = SqliteOutbox(connection)
        self.positions = SqlitePositions(connection)


class SqliteStore:
    """Events in one SQLite file, in WAL mode, every commit on disk before it is told."""

    poll_s = 0.010

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self._readers = Readers(path)
        self._writer = Writer(path)

    @contextmanager
    def write(self) -> Iterator[SqliteTx]:
        """See `Store.write`."""
        with self._writer.transaction() as connection:
            yield SqliteTx(connection)

    @contextmanager
    def read(self) -> Iterator[SqliteTx]:
        """See `Store.read`."""
        with self._readers.lend() as connection:
            yield SqliteTx(connection)

    def watch(self) -> "SqliteWatcher":
        """See `Store.watch`."""
        return SqliteWatcher(connect(self.path))

    def migrate(self) -> Sequence[str]:
        """See `Store.migrate`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        done = []
        with self._writer.transaction() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS penstock_migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL)"
            )
            found = _found(connection)
            if found > version(PACKAGE):
                raise SchemaTooNew(found=found, wanted=version(PACKAGE))
            for step in migrations(PACKAGE)[found:]:
                for sql in _split(step.sql):
                    connection.execute(sql)
                connection.execute("INSERT INTO penstock_migration VALUES (?, ?)", (step.number, step.name))
                done.append(f"{step.number:04} {step.name}")
        return done

    def check(self) -> None:
        """See `Store.check`."""
        with self._readers.lend() as connection:
            found = _found(connection)
        if found < version(PACKAGE):
            raise SchemaMissing(found=found, wanted=version(PACKAGE))
        if found > version(PACKAGE):
            raise SchemaTooNew(found=found, wanted=version(PACKAGE))

    def doctor(self) -> Sequence[Finding]:
        """See `Store.doctor`."""
        with self._readers.lend() as connection:
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
            found = _found(connection)
            backlog = connection.execute("SELECT count(*) FROM penstock_outbox").fetchone()[0] if found else 0
            rejected = connection.execute("SELECT count(*) FROM penstock_rejected").fetchone()[0] if found else 0
        wal = Path(f"{self.path}-wal")
        wal_mib = wal.stat().st_size / 2**20 if wal.exists() else 0.0
        return [
            Finding("database", True, f"{self.url}, SQLite {sqlite3.sqlite_version}"),
            Finding("schema", found == version(PACKAGE), f"version {found}, this Penstock needs {version(PACKAGE)}"),
            Finding("durability", journal == "wal" and synchronous >= 2, f"{journal=!s}, {synchronous=}"),
            Finding("long transactions", wal_mib < 256, f"the write-ahead log has {wal_mib:.1f} MiB: readers keep it"),
            Finding("outbox", backlog < 10_000, f"{backlog} rows wait to be moved"),
            Finding("rejected", rejected == 0, f"{rejected} outbox rows could not be published: see penstock_rejected"),
        ]  # fmt: skip

    def close(self) -> None:
        """See `Store.close`."""
        self._readers.close()
        self._writer.close()


class SqliteWatcher:
    """Tells by SQLite's data version whether another connection has committed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._seen = -1

    def changed(self) -> bool:
        """See `Watcher.changed`."""
        with translated():
            (found,) = self._connection.execute("PRAGMA data_version").fetchone()
        before, self._seen = self._seen, found
        return bool(found != before)

    def close(self) -> None:
        """See `Watcher.close`."""
        self._connection.close()


def _found(connection: sqlite3.Connection) -> int:
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'penstock_migration'").fetchone()
    return (
        int(connection.execute("SELECT coalesce(max(number), 0) FROM penstock_migration").fetchone()[0]) if known else 0
    )


def _split(script: str) -> Iterator[str]:
    """Cut a script into statements, since `executescript` would commit the transaction that it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
