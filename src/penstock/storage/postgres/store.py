"""The store in one PostgreSQL database."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool

from penstock.errors import DatabaseUnavailable, EncodingUnsuitable, OutcomeUnknown, SchemaMissing
from penstock.storage.group_rows import SqlGroups
from penstock.storage.opening import Opening
from penstock.storage.parked_rows import SqlParkedKeys
from penstock.storage.positions import SqlPositions
from penstock.storage.postgres.doctor import LONG_TRANSACTION_SECONDS, findings
from penstock.storage.postgres.errors import translated
from penstock.storage.postgres.events import PostgresEvents
from penstock.storage.postgres.feeds import PostgresFeeds
from penstock.storage.postgres.opening import opened
from penstock.storage.postgres.outbox import Looks, PostgresOutbox
from penstock.storage.postgres.producers import PostgresProducers
from penstock.storage.postgres.rejected import PostgresRejected
from penstock.storage.postgres.staging import PostgresStaging
from penstock.storage.postgres.watcher import PostgresWatcher
from penstock.storage.schemas import SqlSchemas
from penstock.storage.settings import SqlSettings
from penstock.storage.statements import Statements, missing, statement, version
from penstock.storage.store import Finding, Head
from penstock.storage.subscription_rows import SqlSubscriptions

PACKAGE = __package__
CONNECTIONS_MAX = 10
CONNECT_TIMEOUT = 5.0
RECONNECT_SECONDS = 2.0
"""So long the pool tries again by itself, at ever longer intervals; who needs a connection later starts it anew."""
_NOTICES_SILENCE: Final[dict[str, Any]] = {
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""A network that swallows everything is noticed within half a minute, unless the URL says otherwise; by default the
system would take from a quarter of an hour to two hours."""
_sql: Final[Any] = partial(statement, __package__)

Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresTx:
    """What can be done on one connection."""

    def __init__(self, connection: Connection, looks: Looks) -> None:
        self.after_commit: list[Callable[[], None]] = []
        self.opened: dict[int, Head] | None = None
        statements = Statements(PACKAGE, connection)
        self.events = PostgresEvents(connection)
        self.feeds = PostgresFeeds(statements)
        self.schemas = SqlSchemas(statements)
        self.outbox = PostgresOutbox(connection, looks, self.after_commit)
        self.rejected = PostgresRejected(connection)
        self.positions = SqlPositions(statements)
        self.groups = SqlGroups(statements)
        self.settings = SqlSettings(statements)
        self.producers = PostgresProducers(statements, connection)
        self.subscriptions = SqlSubscriptions(statements)
        self.parked = SqlParkedKeys(statements)
        self.staging = PostgresStaging(statements)


class PostgresStore:
    """Events in a PostgreSQL database, every commit on disk before it is told; works through PgBouncer."""

    poll_interval = 0.025
    calm_poll_interval = 0.095
    batch_events_max = 20_000

    def __init__(self, url: str) -> None:
        parts = conninfo_to_dict(url)
        self.url = f"postgresql://{parts.get('host') or ''}/{parts.get('dbname') or ''}"
        self._conninfo = make_conninfo(**_NOTICES_SILENCE | parts)
        self._looks = Looks()
        self._opening = threading.Lock()
        self._pool: ConnectionPool[Connection] | None = None

    @contextmanager
    def write(self, *, patient: bool = True, opening: Opening | None = None) -> Iterator[PostgresTx]:  # noqa: ARG002
        """See `Store.write`; writers wait for rows alone."""
        committing = False
        try:
            with self._lend() as connection:
                tx = PostgresTx(connection, self._looks)
                if opening is None:
                    connection.execute(_sql("begin"))
                else:
                    tx.opened = opened(connection, tx.outbox, opening)
                yield tx
                committing = True
                connection.commit()
        except DatabaseUnavailable as error:
            if committing:
                raise OutcomeUnknown(reason=error.reason) from error
            raise
        for told in tx.after_commit:
            told()

    @contextmanager
    def read(self) -> Iterator[PostgresTx]:
        """See `Store.read`."""
        with self._lend() as connection:
            yield PostgresTx(connection, self._looks)

    def watch(self) -> PostgresWatcher:
        """See `Store.watch`."""
        return PostgresWatcher(self._conninfo)

    def migrate(self) -> Sequence[str]:
        """See `Store.migrate`."""
        done = []
        with self._lend() as connection:  # Which commits what was begun, or undoes it.
            connection.execute(_sql("begin"))
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('penstock_migration'))")
            (encoding,) = connection.execute("SHOW server_encoding").fetchone() or ("",)
            if encoding != "UTF8":
                raise EncodingUnsuitable(found=encoding, wanted="UTF8")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS penstock_migration (number integer PRIMARY KEY, name text NOT NULL)"
            )
            found = _found(connection)
            for step in missing(PACKAGE, found):
                connection.execute(step.sql)
                connection.execute("INSERT INTO penstock_migration VALUES (%s, %s)", (step.number, step.name))
                done.append(f"{step.number:04} {step.name}")
        return done

    def check(self) -> None:
        """See `Store.check`."""
        with self._lend() as connection:
            found = _found(connection)
        if missing(PACKAGE, found):
            raise SchemaMissing(found=found, wanted=version(PACKAGE))

    def doctor(self, *, long_transaction_seconds: float = LONG_TRANSACTION_SECONDS) -> Sequence[Finding]:
        """See `Store.doctor`."""
        with self._lend() as connection:
            found, wanted = _found(connection), version(PACKAGE)
            return findings(
                connection, self.url, found=found, wanted=wanted, long_transaction_seconds=long_transaction_seconds
            )

    def close(self) -> None:
        """See `Store.close`."""
        with self._opening:
            if self._pool is not None:
                self._pool.close()
                self._pool = None

    @contextmanager
    def _lend(self) -> Iterator[Connection]:
        pool = self._opened()
        try:
            with translated(), pool.connection() as connection:
                yield connection
        except DatabaseUnavailable:
            self._looks.forget()  # It may have crashed.
            pool.check()  # After a restart of the database every idle connection is dead: replace them at once.
            raise

    def _opened(self) -> "ConnectionPool[Connection]":
        with self._opening:
            if self._pool is None:
                # No prepared statements and no session state: PgBouncer may give each transaction another session.
                given = {"autocommit": True, "prepare_threshold": None, "connect_timeout": int(CONNECT_TIMEOUT)}
                self._pool = ConnectionPool(
                    self._conninfo, min_size=1, max_size=CONNECTIONS_MAX, timeout=CONNECT_TIMEOUT, kwargs=given,
                    reconnect_timeout=RECONNECT_SECONDS, name="penstock", open=True,
                )  # fmt: skip
            return self._pool


def _found(connection: Connection) -> int:
    (known,) = connection.execute("SELECT to_regclass('penstock_migration') IS NOT NULL").fetchone() or (False,)
    if not known:
        return 0
    (found,) = connection.execute("SELECT coalesce(max(number), 0) FROM penstock_migration").fetchone() or (0,)
    return int(found)
