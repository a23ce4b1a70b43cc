"""Runs one statement on each kind of connection that a service can have.

The adapter is chosen by the names of the connection's classes. Therefore no library is imported that the service has
not imported itself: Penstock depends on none of them.

Invariants:
    A statement runs in the transaction that is open on the connection, if any.
    No adapter begins, commits or rolls back a transaction; if a driver begins one implicitly, the caller ends it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, Protocol

from penstock.outbox.dialects import Dialect, to_numbered, to_pyformat

SqlParameters = Mapping[str, str | int | None]
ResultRow = tuple[Any, ...] | None
"""The first row of a query's result, None if there is none; for another statement, a row with the number of rows
written."""


class Adapter(Protocol):
    """A connection as the outbox uses it."""

    dialect: Dialect
    is_async: bool
    """Whether the result of `run` has to be awaited."""
    may_have_read: bool
    """Whether a SQLite transaction is open that may have begun as a read; SQLite does not let it wait for the write
    lock."""

    def run(self, statement: str, parameters: SqlParameters | None = None) -> Any:
        """Run *statement* and return its row, or an awaitable of it on an async connection."""


class Sqlite3:
    """A `sqlite3.Connection`."""

    dialect: Dialect = "sqlite"
    is_async = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.may_have_read: bool = connection.in_transaction

    def run(self, statement: str, parameters: SqlParameters | None = None) -> ResultRow:
        """Run *statement*, independent of the connection's row and text factories."""
        cursor = self._connection.cursor()
        cursor.row_factory = None
        try:
            cursor.execute(statement, parameters or {})
            row = cursor.fetchone() if cursor.description else (cursor.rowcount,)
        finally:
            cursor.close()
        return row and tuple(value.decode() if isinstance(value, bytes) else value for value in row)


class Psycopg:
    """A `psycopg.Connection`."""

    dialect: Dialect = "postgresql"
    is_async = False
    may_have_read = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, statement: str, parameters: SqlParameters | None = None) -> ResultRow:
        """Run *statement* on a plain cursor, independent of the connection's row and cursor factories."""
        import psycopg

        with psycopg.Cursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor:
            cursor.execute(*_psycopg_arguments(statement, parameters))
            return cursor.fetchone() if _is_query(statement) else None


class AsyncPsycopg:
    """A `psycopg.AsyncConnection`."""

    dialect: Dialect = "postgresql"
    is_async = True
    may_have_read = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def run(self, statement: str, parameters: SqlParameters | None = None) -> ResultRow:
        """Run *statement* on a plain cursor, independent of the connection's row and cursor factories."""
        import psycopg

        async with psycopg.AsyncCursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(*_psycopg_arguments(statement, parameters))
            return await cursor.fetchone() if _is_query(statement) else None


class Asyncpg:
    """An `asyncpg.Connection`, also one of a pool."""

    dialect: Dialect = "postgresql"
    is_async = True
    may_have_read = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def run(self, statement: str, parameters: SqlParameters | None = None) -> ResultRow:
        """Run *statement* with positional parameters."""
        text, names = to_numbered(statement) if parameters else (statement, ())
        record = await self._connection.fetchrow(text, *((parameters or {})[name] for name in names))
        return None if record is None else tuple(record)


class Sqlalchemy:
    """A SQLAlchemy `Connection`, over any driver for SQLite or PostgreSQL."""

    is_async = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.dialect = _check_dialect("SQLAlchemy", connection.dialect.name)
        # SQLAlchemy begins its transaction with the first statement, so the driver cannot tell yet.
        self.may_have_read: bool = self.dialect == "sqlite"

    def run(self, statement: str, parameters: SqlParameters | None = None) -> ResultRow:
        """Run *statement* as SQLAlchemy's own text, which converts the parameters to the driver's style."""
        result = self._connection.execute(_sqlalchemy_text(statement), parameters)
        row = result.first() if result.returns_rows else (result.rowcount,)
        return row and tuple(row)


class Django:
    """Django's `connection`, over its SQLite or PostgreSQL backend."""

    is_async = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.dialect = _check_dialect("Django", connection.vendor)
        connection.ensure_connection()
        self.may_have_read: bool = self.dialect == "sqlite" and connection.connection.in_transaction

    def run(self, statement: str, parameters: SqlParameters | None = None) -> ResultRow:
        """Run *statement* on Django's cursor, so that its debug log and its instrumentation include it."""
        with self._connection.cursor() as cursor:
            cursor.execute(*(to_pyformat(statement), parameters) if parameters else (statement,))
            return cursor.fetchone() if cursor.description else (cursor.rowcount,)


_ADAPTERS: Final[dict[tuple[str, str], Callable[[Any], Adapter]]] = {
    ("sqlite3", "Connection"): Sqlite3,
    ("psycopg", "Connection"): Psycopg,
    ("psycopg", "AsyncConnection"): AsyncPsycopg,
    ("asyncpg", "Connection"): Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): Asyncpg,
    ("sqlalchemy", "Connection"): Sqlalchemy,
    ("sqlalchemy", "Session"): lambda session: Sqlalchemy(session.connection()),
    ("sqlalchemy", "scoped_session"): lambda session: Sqlalchemy(session.connection()),
    ("django", "BaseDatabaseWrapper"): Django,
    ("django", "ConnectionProxy"): Django,
}
_BRIDGES: Final[dict[tuple[str, str], Callable[[Any], Any]]] = {
    ("sqlalchemy", "AsyncConnection"): lambda connection: connection.run_sync,
    ("sqlalchemy", "AsyncSession"): lambda session: session.run_sync,
    ("sqlalchemy", "async_scoped_session"): lambda registry: registry().run_sync,
}
_KNOWN: Final = (
    "sqlite3.Connection, psycopg.Connection or AsyncConnection, asyncpg.Connection, SQLAlchemy's Connection, Session, "
    "AsyncConnection or AsyncSession, Django's connection"
)


def make_adapter(connection: Any) -> Adapter:
    """Return the adapter for *connection*.

    Raises:
        TypeError: *connection* is of an unsupported type, or its database is neither SQLite nor PostgreSQL.
    """
    for name in _names_of(connection):
        if adapter := _ADAPTERS.get(name):
            return adapter(connection)
    given = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise TypeError(f"the outbox is written through the connection that holds your transaction: {_KNOWN}; not {given}")


def run_sync_of(connection: Any) -> Any:
    """Return `run_sync` of a SQLAlchemy async connection or session; None for all others."""
    bridge = next((_BRIDGES[name] for name in _names_of(connection) if name in _BRIDGES), None)
    return bridge and bridge(connection)


def _names_of(connection: Any) -> Sequence[tuple[str, str]]:
    kind: Any = type(connection)
    return _names(kind)


@lru_cache
def _names(kind: Any) -> Sequence[tuple[str, str]]:
    return [(each.__module__.partition(".")[0], each.__name__) for each in kind.__mro__]


@cache
def _sqlalchemy_text(statement: str) -> Any:
    import sqlalchemy

    return sqlalchemy.text(statement)


def _psycopg_arguments(statement: str, parameters: SqlParameters | None) -> tuple[Any, ...]:
    return (to_pyformat(statement), parameters) if parameters else (statement,)


def _is_query(statement: str) -> bool:
    """Return whether *statement* returns rows; in a psycopg pipeline the cursor does not know that in advance."""
    return statement.startswith(("SELECT", "WITH")) or statement.endswith("RETURNING 1")


def _check_dialect(library: str, name: str) -> Dialect:
    known: dict[str, Dialect] = {"sqlite": "sqlite", "postgresql": "postgresql"}
    if name not in known:
        raise TypeError(f"the outbox is there for SQLite and PostgreSQL; this {library} connection is to {name}")
    return known[name]
