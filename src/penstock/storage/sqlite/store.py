"""The store in one SQLite file."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import DatabaseUnavailable, EncodingUnsuitable, SchemaMissing
from penstock.storage.feeds import SqlFeeds
from penstock.storage.group_rows import SqlGroups
from penstock.storage.opening import Opening
from penstock.storage.parked_rows import SqlParkedKeys
from penstock.storage.positions import SqlPositions
from penstock.storage.producer_rows import SqlProducers
from penstock.storage.schemas import SqlSchemas
from penstock.storage.settings import SqlSettings
from penstock.storage.sqlite.connection import Readers, Writer, connect
from penstock.storage.sqlite.doctor import LONG_TRANSACTION_SECONDS, findings, schema_found
from penstock.storage.sqlite.errors import translated
from penstock.storage.sqlite.events import SqliteEvents
from penstock.storage.sqlite.outbox import SqliteOutbox
from penstock.storage.sqlite.rejected import SqliteRejected
from penstock.storage.staging_rows import SqlStaging
from penstock.storage.statements import Statements, missing, version
from penstock.storage.store import Finding, Head
from penstock.storage.subscription_rows import SqlSubscriptions

PACKAGE = __package__
ENCODING = "UTF-8"


class SqliteTx:
    """What can be done on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.opened: dict[int, Head] | None = None
        statements = Statements(PACKAGE, connection)
        self.events = SqliteEvents(connection)
        self.feeds = SqlFeeds(statements)
        self.schemas = SqlSchemas(statements)
        self.outbox = SqliteOutbox(connection)
        self.rejected = SqliteRejected(connection)
        self.positions = SqlPositions(statements)
        self.groups = SqlGroups(statements)
        self.settings = SqlSettings(statements)
        self.producers = SqlProducers(statements)
        self.subscriptions = SqlSubscriptions(statements)
        self.parked = SqlParkedKeys(statements)
        self.staging = SqlStaging(statements)


class SqliteStore:
    """Events in one SQLite file, in WAL mode, every commit on disk before it is told."""

    poll_interval = 0.010
    calm_poll_interval = 0.035
    batch_events_max = 5_000

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self._readers = Readers(path)
        self._writer = Writer(path)

    @contextmanager
    def write(self, *, patient: bool = True, opening: Opening | None = None) -> Iterator[SqliteTx]:
        """See `Store.write`."""
        with self._writer.transaction(patient=patient) as connection:
            tx = SqliteTx(connection)
            if opening is not None and not tx.outbox.waiting(opening.names):
                tx.opened = tx.events.lock_heads(opening.partition_ids)
            yield tx

    @contextmanager
    def read(self) -> Iterator[SqliteTx]:
        """See `Store.read`."""
        with self._readers.lend() as connection:
            yield SqliteTx(connection)

    def watch(self) -> "SqliteWatcher":
        """See `Store.watch`."""
        return SqliteWatcher(connect(self.path, writes=False))

    def migrate(self) -> Sequence[str]:
        """See `Store.migrate`."""
        if not self.path.parent.is_dir():
            reason = f"there is no directory {self.path.parent}; create it, or correct the name of the file"
            raise DatabaseUnavailable(reason=reason)
        done = []
        with self._writer.transaction() as connection:
            (encoding,) = connection.execute("PRAGMA encoding").fetchone()
            if encoding != ENCODING:
                raise EncodingUnsuitable(found=encoding, wanted=ENCODING)
            connection.execute(
                "CREATE TABLE IF NOT EXISTS penstock_migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL)"
            )
            found = schema_found(connection)
            for step in missing(PACKAGE, found):
                for sql in _split(step.sql):
                    connection.execute(sql)
                connection.execute("INSERT INTO penstock_migration VALUES (?, ?)", (step.number, step.name))
                done.append(f"{step.number:04} {step.name}")
        return done

    def check(self) -> None:
        """See `Store.check`."""
        self._writer.check_file()
        with self._readers.lend() as connection:
            found = schema_found(connection)
        if missing(PACKAGE, found):
            raise SchemaMissing(found=found, wanted=version(PACKAGE))

    def doctor(self, *, long_transaction_seconds: float = LONG_TRANSACTION_SECONDS) -> Sequence[Finding]:
        """See `Store.doctor`."""
        return findings(self.path, version(PACKAGE), long_transaction_seconds)

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


def _split(script: str) -> Iterator[str]:
    """Cut a script into statements, since `executescript` would commit the transaction that it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
