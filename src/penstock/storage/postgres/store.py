"""The store in one PostgreSQL database."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg_pool import ConnectionPool

from penstock.errors import DatabaseUnavailable, DatabaseUnsuitable, OutcomeUnknown, Unavailable
from penstock.storage.cold.log import TieredLog
from penstock.storage.postgres import POSTGRES
from penstock.storage.postgres.batches import PostgresBatches
from penstock.storage.postgres.doctor import LONG_TRANSACTION_SECONDS, diagnose
from penstock.storage.postgres.errors import translate_errors
from penstock.storage.postgres.history import PrimaryHistory
from penstock.storage.postgres.log.events import PostgresLog, return_text_as_bytes
from penstock.storage.postgres.log.outbox import OutboxLooks, PostgresOutbox
from penstock.storage.postgres.producers import PostgresProducers
from penstock.storage.postgres.registry import PostgresRegistry
from penstock.storage.postgres.replicas import ReplicaPool, ServerIdentity, parse_conninfo
from penstock.storage.postgres.watcher import PostgresWatcher
from penstock.storage.statements import SqlRunner
from penstock.storage.store import AppendPlan, ConnectionCounts, DoctorFinding, Replicas, StoreSpace, Tx

if TYPE_CHECKING:
    from penstock.storage.cold.tier import ColdTier

CONNECTIONS_MAX = 10
CONNECT_TIMEOUT = 5.0
RECONNECT_SECONDS = 2.0
"""How long the pool reconnects by itself, with backoff; a later request for a connection starts it again."""
_sql: Final = POSTGRES.statements
_LIMITED: Final = "BEGIN READ ONLY; SET LOCAL jit = off"
"""A statement with a time limit looks at much, so PostgreSQL would compile it, which takes longer than to run it."""

Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresTx(Tx):
    """Repositories on one connection to PostgreSQL."""

    def __init__(
        self, connection: Connection, looks: OutboxLooks, history: PrimaryHistory, tier: "ColdTier | None" = None
    ) -> None:
        self._connection = connection
        self._history = history
        self._tier = tier
        self._looks = looks
        self.last: list[bytes] = []
        """Statements that run together with the COMMIT."""
        self.after_commit: list[Callable[[], None]] = []

    @cached_property
    def _sql(self) -> SqlRunner:
        return SqlRunner(POSTGRES, self._connection)

    @cached_property
    def log(self) -> TieredLog:
        """Events of partitions, wherever they are."""
        return TieredLog(PostgresLog(self._connection, self.last, self._history), self, self._tier)

    @cached_property
    def outbox(self) -> PostgresOutbox:
        """Rows that services have committed for the hub to move into the log."""
        return PostgresOutbox(self._connection, self._looks, self.after_commit, self._history)

    @cached_property
    def registry(self) -> PostgresRegistry:
        """Event types, their partitions and their schemas."""
        return PostgresRegistry(self._sql)

    @cached_property
    def producers(self) -> PostgresProducers:
        """Idempotent producers."""
        return PostgresProducers(self._sql, self._connection)

    @cached_property
    def batches(self) -> PostgresBatches:
        """Uploads, and the ledger of batches."""
        return PostgresBatches(self._sql)

    def measure_bytes(self) -> int:
        """Return the size of the database."""
        [(size,)] = self._connection.execute(_sql["database_size"]).fetchall()
        return int(size)


class PostgresStore:
    """Store in a PostgreSQL database; every commit is on disk before `write` returns. Works through PgBouncer."""

    poll_interval = 0.025
    calm_poll_interval = 0.095
    batch_events_max = 20_000

    def __init__(self, url: str, cold: "ColdTier | None" = None, replicas: Sequence[str] = ()) -> None:
        """*replicas* are the URLs of standbys that serve chunks of events.

        Raises:
            BadParameter: one of these is malformed.
        """
        self.cold = cold
        self.url, self._conninfo = parse_conninfo(url)
        self._looks = OutboxLooks()
        self._history = PrimaryHistory()
        self.replicas: Replicas | None = None
        if replicas:
            self.replicas = ReplicaPool(replicas, self._history, self.identify)
        self._opening = threading.Lock()
        self._pool: ConnectionPool[Connection] | None = None

    @contextmanager
    def write(self, *, patient: bool = True, plan: AppendPlan | None = None) -> Iterator[PostgresTx]:  # noqa: ARG002
        """Open a write transaction: see `Store.write`. Writers wait for rows only."""
        committing = False
        try:
            with self._lend() as connection:
                tx = PostgresTx(connection, self._looks, self._history, self.cold)
                if plan is None:
                    connection.execute(_sql["begin"])
                else:
                    tx.locked_heads = tx.outbox.begin_append(plan)
                yield tx
                committing = True
                if tx.last:
                    psycopg.ClientCursor(connection).execute(b";\n".join([*tx.last, b"COMMIT"]))
                else:
                    connection.commit()
        except DatabaseUnavailable as error:
            if committing:
                raise OutcomeUnknown(reason=error.reason) from error
            raise
        for act in tx.after_commit:
            act()

    @contextmanager
    def read(self, *, timeout: float | None = None) -> Iterator[PostgresTx]:
        """Lend a connection without a transaction: see `Store.read`.

        With a *timeout* there is one, since PgBouncer would keep the setting for others.
        """
        with self._lend() as connection:
            if timeout is None:
                yield PostgresTx(connection, self._looks, self._history, self.cold)
                return
            connection.execute(f"{_LIMITED}; SET LOCAL statement_timeout = {max(1, int(timeout * 1000))}")
            try:
                yield PostgresTx(connection, self._looks, self._history, self.cold)
            except psycopg.errors.QueryCanceled as error:
                connection.rollback()
                raise Unavailable(reason=f"a statement took longer than {timeout:g} s", retry_after=1) from error
            connection.commit()

    def count_connections(self) -> ConnectionCounts:
        """Return how many connections the pool has: see `Store.count_connections`. The watch has one more."""
        with self._opening:
            found = self._pool.get_stats() if self._pool is not None else {}
        counts = (found.get(name, 0) for name in ("pool_size", "pool_available", "pool_max", "requests_waiting"))
        return ConnectionCounts(*counts)

    def measure_space(self, *, timeout: float) -> StoreSpace:
        """Return the size of the database; its disk belongs to the server."""
        with self.read(timeout=timeout) as tx:
            return StoreSpace(tx.measure_bytes(), None, None)

    def forget_deleted(self) -> bool:
        """Do nothing: see `Store.forget_deleted`."""
        return True

    def watch(self) -> PostgresWatcher:
        """Return a watcher for one thread."""
        return PostgresWatcher(self._conninfo)

    def migrate(self) -> Sequence[str]:
        """Migrate the tables: see `Store.migrate`."""
        done = []
        with self._lend() as connection:  # The block commits, or rolls back.
            connection.execute(_sql["begin"])
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('penstock_migration'))")
            (encoding,) = connection.execute("SHOW server_encoding").fetchone() or ("",)
            if encoding != "UTF8":
                raise DatabaseUnsuitable.of("encoding-unsuitable", found=encoding, wanted="UTF8")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS penstock_migration (number integer PRIMARY KEY, name text NOT NULL)"
            )
            found = _find_migration(connection)
            for step in POSTGRES.pending(found):
                connection.execute(step.sql)
                connection.execute("INSERT INTO penstock_migration VALUES (%s, %s)", (step.number, step.name))
                done.append(f"{step.number:04} {step.name}")
        return done

    def check(self, *, restoring: bool = False) -> None:  # noqa: ARG002 - PostgreSQL's backups are not marked.
        """Check the version of the tables: see `Store.check`.

        Raises:
            DatabaseUnavailable: it is a standby. Its readers would not see what has just been published.
        """
        with self._lend() as connection:
            found = _find_migration(connection)
            (is_standby,) = connection.execute("SELECT pg_is_in_recovery()").fetchone() or (False,)
        if POSTGRES.pending(found):
            raise DatabaseUnsuitable.of("schema-missing", found=found, wanted=POSTGRES.version)
        if is_standby:
            reason = "it is a standby; name the primary, or all hosts with target_session_attrs=read-write"
            raise DatabaseUnavailable(reason=reason, retry_after=5)

    def identify(self) -> ServerIdentity:
        """Return which database this is, and how far its write-ahead log is on disk.

        Raises:
            DatabaseUnavailable: the database cannot be reached.
        """
        with self._lend() as connection:
            return ServerIdentity.read(connection)

    def doctor(self, *, long_transaction_seconds: float = LONG_TRANSACTION_SECONDS) -> Sequence[DoctorFinding]:
        """Check the database: see `Store.doctor`."""
        with self._lend() as connection:
            found, wanted = _find_migration(connection), POSTGRES.version
            return diagnose(
                connection, self.url, found=found, wanted=wanted, long_transaction_seconds=long_transaction_seconds
            )

    def close(self) -> None:
        """Release all connections."""
        if self.replicas is not None:
            self.replicas.close()
        with self._opening:
            if self._pool is not None:
                self._pool.close()
                self._pool = None

    @contextmanager
    def _lend(self) -> Iterator[Connection]:
        pool = self._open_pool()
        try:
            with translate_errors(), pool.connection() as connection:
                yield connection
        except DatabaseUnavailable:
            self._looks.forget()  # The database may have crashed.
            pool.check()  # After a restart of the database every idle connection is dead: replace them at once.
            raise

    def _open_pool(self) -> "ConnectionPool[Connection]":
        with self._opening:
            if self._pool is None:
                # No prepared statements and no session state: PgBouncer may give each transaction another session.
                given = {"autocommit": True, "prepare_threshold": None, "connect_timeout": int(CONNECT_TIMEOUT)}
                self._pool = ConnectionPool(
                    self._conninfo, min_size=1, max_size=CONNECTIONS_MAX, timeout=CONNECT_TIMEOUT, kwargs=given,
                    reconnect_timeout=RECONNECT_SECONDS, name="penstock", configure=return_text_as_bytes, open=True,
                )  # fmt: skip
            return self._pool


def _find_migration(connection: Connection) -> int:
    (known,) = connection.execute("SELECT to_regclass('penstock_migration') IS NOT NULL").fetchone() or (False,)
    if not known:
        return 0
    (found,) = connection.execute("SELECT coalesce(max(number), 0) FROM penstock_migration").fetchone() or (0,)
    return int(found)
