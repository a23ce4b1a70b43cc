"""The consumer's own database, in which processing keeps its state: connections, transactions, and plans.

A plan yields steps, each a statement, and receives the rows of each, so that the same code serves sync and async
connections.

Invariants:
    Only `transaction` and `run_in_transaction` begin and commit. A plan does neither.
    A plan writes inside a transaction, or not at all.
    Drivers are imported on use.
"""

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from penstock.client.log.cursor_statements import (
    ASYNC_CONNECTIONS,
    CONNECTIONS,
    check_table,
    parameter_mark,
    use_plain_rows,
)
from penstock.core.database_url import plain_url
from penstock.errors import (
    BadParameter,
    DatabaseUnavailable,
    DatabaseUnsuitable,
    OutcomeUnknown,
    RequirementMissing,
    WrongTransaction,
)
from penstock.processing.parameters import redact

if TYPE_CHECKING:
    from penstock.outbox.dialects import Dialect

__all__ = ["connector"]

_KINDS: Final = frozenset(["OperationalError", "InterfaceError"])
"""Drivers' exception classes, or their bases, for a database that does not answer, is busy, or has no room."""
_WRONG: Final = "SQLITE_ERROR"
"""SQLite's name for an invalid statement; Python has the same class for it as for an unavailable database."""
_CLASSES: Final = frozenset(["08", "53", "57", "58"])
"""Classes of SQLSTATE: connections, resources, operator intervention, system. Not 54, limits, which do not pass."""
_CHOSEN: Final = frozenset(["40001", "40P01"])
"""Transactions conflicted, and the database rolled this one back."""
_READ_ONLY: Final = "25006"
"""As after a failover, on the former primary."""
_SQLITE_READ_ONLY: Final = "SQLITE_READONLY"
"""Likewise for a file, as when a disk was remounted."""
_OVERDUE: Final = frozenset(["25P03", "25P04"])
"""A transaction was ended since it ran or was idle for too long."""
_LOCKED: Final = "55P03"
_PASSING: Final = _CHOSEN | _OVERDUE | {_READ_ONLY, _LOCKED}
_ENDED: Final = frozenset(["57P01", "57P02", "57P03"])
"""The server shuts down, has crashed, or starts: it ends all sessions."""


def is_passing(error: BaseException) -> bool:
    """Return whether a database has failed temporarily: the same operation may succeed later."""
    state = _find_sqlstate(error)
    if state:
        return state[:2] in _CLASSES or state in _PASSING
    is_of_kind = any(each.__name__ in _KINDS for each in type(error).__mro__)
    return is_of_kind and getattr(error, "sqlite_errorname", "") != _WRONG


def is_blameless(error: BaseException) -> bool:
    """Return whether an error says that no statement of the ended transaction is to blame.

    The connection is lost, the server shuts down or is read-only, or a conflicting transaction was preferred.
    """
    state = _find_sqlstate(error)
    if not state:  # Drivers keep the error of a failed connection; other errors may be of a statement.
        is_read_only = getattr(error, "sqlite_errorname", "").startswith(_SQLITE_READ_ONLY)
        return is_read_only or getattr(error, "pgconn", None) is not None
    return state[:2] == "08" or state in _ENDED or state in _CHOSEN or state == _READ_ONLY


def is_overdue(error: BaseException) -> bool:
    """Return whether a transaction was ended for its length, which its own code caused."""
    return _find_sqlstate(error) in _OVERDUE


def is_broken(connection: Any) -> bool:
    """Return whether the other side has ended a connection; one that was closed here does not count."""
    return bool(getattr(connection, "broken", False))


def _find_sqlstate(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


Connect: TypeAlias = Callable[[], Any]
"""Opens a `sqlite3.Connection` or `psycopg.Connection`; it is called by the thread that uses it, which closes it."""
R = TypeVar("R")
SQLITE: Final = "sqlite:///"
MEMORY: Final = ":memory:"
POSTGRES: Final = ("postgresql://", "postgres://")
_ALLOWED: Final = f"{SQLITE}FILE, postgresql://…, or a function"
BUSY_TIMEOUT: Final = 30.0
"""Seconds to wait for a SQLite file that others write to."""


def connector(database: str | Connect) -> Connect:
    """Return a function that opens *database*: a URL, `sqlite:///FILE` or `postgresql://…`, or a function of your own.

    Raises:
        BadParameter: it is neither; or it is in memory, where each connection would have a database of its own.
        DatabaseUnavailable: (the function, for a URL) the database cannot be opened; says why.
        RequirementMissing: (likewise) its driver is not installed.
    """
    if callable(database):
        return database
    if not isinstance(database, str):
        raise BadParameter(parameter="database", value=database, allowed=_ALLOWED)
    database = plain_url(database)
    path = database.removeprefix(SQLITE)
    if path == MEMORY:
        allowed = f"{SQLITE}FILE: several connections are opened, and in memory each would have a database of its own"
        raise BadParameter(parameter="database", value=database, allowed=allowed)
    if path not in ("", database):
        return lambda: _open_sqlite(Path(path))
    if database.startswith(POSTGRES):
        return lambda: _open_postgres(database)
    raise BadParameter(parameter="database", value=redact(database), allowed=_ALLOWED)


def is_missing(database: str | Connect) -> bool:
    """Return whether a database is a SQLite file that does not exist, and that opening would create."""
    if not isinstance(database, str):
        return False
    url = plain_url(database)
    return url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).exists()


@contextmanager
def transaction(connect: Connect) -> Iterator[Any]:
    """Open a connection and a transaction, which is committed at the end of the block, or rolled back by an error.

    In SQLite it is the only writer from its beginning: the rows that it reads do not change until it commits.

    Raises:
        DatabaseUnavailable: the file is no SQLite database.
    """
    with closing(connect()) as connection:
        if not isinstance(connection, sqlite3.Connection):
            connection.commit()  # Opening may have begun a transaction, inside which this one would never be committed.
            with connection.transaction():
                yield connection
            return
        _begin(connection)
        try:
            yield connection
        except BaseException:
            connection.rollback()
            raise
        connection.commit()


def run_in_transaction(connect: Connect, work: Callable[[Any], R], what: str) -> R:
    """Run *work* in its own transaction, and return its result.

    Args:
        connect: Opens the connection for *work*.
        work: The function to run, in a database with all tables that it needs.
        what: The owner of the database, for error messages.

    Raises:
        DatabaseUnavailable: nothing is done: the database has failed before the commit.
        OutcomeUnknown: the database has failed during the commit.
        DatabaseUnsuitable: nothing is done: a table is missing.
    """
    is_done = False
    try:
        with transaction(connect) as connection:
            result = work(connection)
            is_done = True
    except Exception as error:
        if lacks_table(error):
            raise DatabaseUnsuitable.of("table-gone", tables=what, reason=str(error).partition("\n")[0]) from error
        if not is_passing(error):
            raise
        reason = f"the {what}' database: {error}"
        raise (OutcomeUnknown if is_done else DatabaseUnavailable)(reason=reason) from error
    return result


def may_be_one(first: str | Connect, second: str | Connect) -> bool:
    """Return whether two databases may be the same, as far as their URLs or functions show.

    Raises:
        BadParameter: one is a URL that cannot be read.

    >>> may_be_one("sqlite:///shop.db", "sqlite:///./shop.db"), may_be_one("sqlite:///shop.db", "sqlite:///read.db")
    (True, False)
    >>> may_be_one("postgresql://localhost/shop", "postgres://127.0.0.1/shop"), may_be_one("sqlite:///shop.db", print)
    (True, True)
    """
    if callable(first) or callable(second):
        return True
    first, second = plain_url(first), plain_url(second)
    if first.startswith(SQLITE) != second.startswith(SQLITE):
        return False
    names = {_find_name(first), _find_name(second)}
    return len(names) == 1 or None in names


def writes_alone(connect: Connect) -> bool:
    """Return whether a transaction of a database excludes all other writers, as in SQLite."""
    with closing(connect()) as connection:
        return isinstance(connection, sqlite3.Connection)


def lacks_table(error: Exception) -> bool:
    """Return whether an error says that a table is missing."""
    return type(error).__name__ == "UndefinedTable" or "no such table" in str(error)


def _find_name(url: str) -> str | None:
    """Return a file's path, or the database's name on its server; the server may have several host names.

    None: the URL has no name, so the server's or the environment's default applies.
    """
    if url.startswith(SQLITE):
        return str(Path(url.removeprefix(SQLITE)).resolve())
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        name = conninfo_to_dict(url).get("dbname")
    except psycopg.ProgrammingError:  # It quotes the unreadable part, which may be the password.
        allowed = (
            "postgresql://USER:PASSWORD@HOST/NAME, in which other characters than letters and digits are escaped: %20"
        )
        raise BadParameter(parameter="database", value=redact(url), allowed=allowed) from None
    return None if name is None else str(name)


def _begin(connection: sqlite3.Connection) -> None:
    """Begin to write.

    Raises:
        DatabaseUnavailable: the file is no SQLite database.
    """
    try:
        if connection.in_transaction:  # As from the start with `autocommit` False: others can write beside it.
            connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "") != "SQLITE_NOTADB":
            raise
        [(_, _, file), *_] = use_plain_rows(connection.cursor()).execute("PRAGMA database_list")
        reason = f"{file} is not a SQLite database; name another file, or put a backup in its place"
        raise DatabaseUnavailable(reason=reason) from error


def _open_sqlite(file: Path) -> sqlite3.Connection:
    try:
        return sqlite3.connect(file, timeout=BUSY_TIMEOUT, isolation_level=None)
    except sqlite3.OperationalError as error:  # The driver does not name the cause.
        raise DatabaseUnavailable(reason=f"{file} cannot be opened: {_explain_failure(file, error)}") from error


def _explain_failure(file: Path, error: Exception) -> str:
    place = file.absolute()
    if file.is_dir():
        return "it is a directory; name a file in it"
    if not place.parent.exists():
        return f"there is no directory {place.parent}; create it, or correct the name of the file"
    return f"{error}; it must be a file that may be written to, in a directory that may be"


def _open_postgres(url: str) -> Any:
    try:
        import psycopg
    except ModuleNotFoundError as error:
        install = "install it: pip install 'penstock-hub[postgres]'"
        raise RequirementMissing(needed="psycopg", found="none", install=install) from error
    try:
        return psycopg.connect(url, autocommit=True)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(reason=" ".join(str(error).split())) from error


Clock = Callable[[], int]
"""Returns microseconds since 1970, UTC."""


def system_clock() -> int:
    """Return the time now."""
    return time.time_ns() // 1_000


Parameters = Mapping[str, object]
Rows = list[tuple[Any, ...]]
_IDLE: Final = 0
"""libpq's status for a connection without an open transaction."""


class Step(NamedTuple):
    """One statement to run."""

    statement: str
    """The name of its file."""
    parameters: Parameters | Sequence[Parameters]
    """Or several sets of them; the statement is run with each."""
    finds: bool = False
    """True if the statement returns rows, which a psycopg cursor cannot tell beforehand inside a pipeline."""


Plan = Generator[Step, Rows, R]


class _Statements:
    """The statements as one connection wants them."""

    def __init__(self, connection: Any, kinds: Mapping[str, str], table: str) -> None:
        check_table(table)
        mark = parameter_mark(connection, kinds)
        self._dialect: Dialect = "sqlite" if mark == "?" else "postgresql"
        self._is_numbered = mark.startswith("$")
        self._table = table

    def compose_creation(self, name: str) -> str:
        """Return the statement that creates the table; it has no parameters."""
        return load_statement(self._dialect, name, self._table)

    def compose(self, step: Step) -> tuple[str, Any]:
        """Return the text of *step*, and its parameters."""
        text, given = load_statement(self._dialect, step.statement, self._table), step.parameters
        if self._dialect == "sqlite":
            return text, given
        from penstock.outbox.dialects import to_numbered, to_pyformat  # Executors of Spark import this module.

        if not self._is_numbered:
            return to_pyformat(text), given
        text, names = to_numbered(text)
        if isinstance(given, Mapping):
            return text, [given[name] for name in names]
        return text, [[each[name] for name in names] for each in given]


class Database:
    """A `sqlite3.Connection` or `psycopg.Connection`, and one table in its database.

    Raises:
        TypeError: the connection is of another kind.
        BadParameter: *table* is no name of a table.
    """

    def __init__(self, connection: Any, table: str) -> None:
        self._connection = connection
        self._statements = _Statements(connection, CONNECTIONS, table)

    def create(self, statement: str) -> None:
        """Run *statement*, which creates the table if it is not there."""
        self._connection.cursor().execute(self._statements.compose_creation(statement))

    def carry_out(self, plan: Plan[R], *, writes: bool = True) -> R:
        """Run the steps of *plan*, and return its result.

        Raises:
            WrongTransaction: it *writes*, and no transaction is open, nor would the driver begin one.
        """
        if writes:
            _check_transaction(self._connection)
        try:
            step = next(plan)
            while True:
                step = plan.send(self._run(step))
        except StopIteration as done:
            result: R = done.value
            return result

    def _run(self, step: Step) -> Rows:
        text, parameters = self._statements.compose(step)
        cursor = use_plain_rows(self._connection.cursor())
        (cursor.execute if isinstance(step.parameters, Mapping) else cursor.executemany)(text, parameters)
        return list(map(_decode, cursor.fetchall())) if step.finds else []


class AsyncDatabase:
    """The same over a `psycopg.AsyncConnection`; see `Database`."""

    def __init__(self, connection: Any, table: str) -> None:
        self._connection = connection
        self._statements = _Statements(connection, ASYNC_CONNECTIONS, table)

    async def create(self, statement: str) -> None:
        """Run *statement*, which creates the table if it is not there."""
        await self._connection.cursor().execute(self._statements.compose_creation(statement))

    async def carry_out(self, plan: Plan[R], *, writes: bool = True) -> R:
        """Run the steps of *plan*, and return its result; see `Database.carry_out`."""
        if writes:
            _check_transaction(self._connection)
        try:
            step = next(plan)
            while True:
                step = plan.send(await self._run(step))
        except StopIteration as done:
            result: R = done.value
            return result

    async def _run(self, step: Step) -> Rows:
        text, parameters = self._statements.compose(step)
        cursor = use_plain_rows(self._connection.cursor())
        await (cursor.execute if isinstance(step.parameters, Mapping) else cursor.executemany)(text, parameters)
        return list(map(_decode, await cursor.fetchall())) if step.finds else []


def _check_transaction(connection: Any) -> None:
    if hasattr(connection, "in_transaction"):  # sqlite3: since Python 3.12 two settings prevent transactions.
        mode = getattr(connection, "autocommit", -1)
        at_once = mode is True or (mode == -1 and connection.isolation_level is None)
        is_open = connection.in_transaction
    else:
        at_once = connection.autocommit
        is_open = int(connection.info.transaction_status) != _IDLE
    if at_once and not is_open:
        raise WrongTransaction.of("outside-transaction")


def _decode(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *row* with texts as `str`, if the connection's text factory has returned bytes."""
    return tuple([value.decode() if isinstance(value, bytes) else value for value in row])


@cache
def load_statement(dialect: "Dialect", name: str, table: str) -> str:
    """Return the text of a statement: from the dialect's own file, or from the file that both dialects share."""
    folder = files(__package__) / "statements"
    own = folder / dialect / f"{name}.sql"
    text = (own if own.is_file() else folder / f"{name}.sql").read_text(encoding="utf-8")
    if dialect == "postgresql":
        text = text.replace(" WITHOUT ROWID", "")
    lines = (line for line in text.splitlines() if not line.startswith("--"))
    return "\n".join(lines).replace("{table}", table)
