"""Opens the databases in which processing keeps what it has to know, and runs transactions in them."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from penstock.client.log.cursor_statements import use_plain_rows
from penstock.core.database_url import plain_url
from penstock.errors import BadParameter, DatabaseUnavailable, DatabaseUnsuitable, OutcomeUnknown, RequirementMissing
from penstock.processing.parameters import shown

__all__ = ["connector"]

_KINDS: Final = frozenset(["OperationalError", "InterfaceError"])
"""What drivers call it, and derive from, when a database does not answer, is busy, or has no room."""
_WRONG: Final = "SQLITE_ERROR"
"""What SQLite calls a statement that is wrong, for which Python has the same class as for a database that is away."""
_CLASSES: Final = frozenset(["08", "53", "57", "58"])
"""Of SQLSTATE: connections, resources, what an operator does, and the system. Not 54, limits, which stay."""
_CHOSEN: Final = frozenset(["40001", "40P01"])
"""Transactions were in each other's way, and this one was chosen to give way."""
_READ_ONLY: Final = "25006"
"""As after a failover, on who was the primary before."""
_SQLITE_READ_ONLY: Final = "SQLITE_READONLY"
"""Likewise of a file, as where a disk was mounted anew."""
_OVERDUE: Final = frozenset(["25P03", "25P04"])
"""A transaction was ended since it lasted, or was left alone, for too long."""
_LOCKED: Final = "55P03"
_PASSING: Final = _CHOSEN | _OVERDUE | {_READ_ONLY, _LOCKED}
_ENDED: Final = frozenset(["57P01", "57P02", "57P03"])
"""The server is shut down, has crashed, or starts: sessions end, whatever goes on in them."""


def is_passing(error: BaseException) -> bool:
    """Tell whether a database has failed in a way that can pass: what was wanted may succeed later, unchanged."""
    state = _state(error)
    if state:
        return state[:2] in _CLASSES or state in _PASSING
    is_of_kind = any(each.__name__ in _KINDS for each in type(error).__mro__)
    return is_of_kind and getattr(error, "sqlite_errorname", "") != _WRONG


def is_nobodys(error: BaseException) -> bool:
    """Tell whether an error itself says that no statement of the transaction is to blame that it has ended.

    There is no connection, the server goes or is only to be read, or the transaction was chosen to give way to another.
    """
    state = _state(error)
    if not state:  # Drivers keep what they could not connect by; what they say elsewhere may be of a statement.
        is_read_only = getattr(error, "sqlite_errorname", "").startswith(_SQLITE_READ_ONLY)
        return is_read_only or getattr(error, "pgconn", None) is not None
    return state[:2] == "08" or state in _ENDED or state in _CHOSEN or state == _READ_ONLY


def is_overdue(error: BaseException) -> bool:
    """Tell whether a transaction was ended for its length, which is the doing of who was in it."""
    return _state(error) in _OVERDUE


def is_broken(connection: Any) -> bool:
    """Tell whether the other side has ended a connection; not whether it was closed here."""
    return bool(getattr(connection, "broken", False))


def _state(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


Connect: TypeAlias = Callable[[], Any]
"""Opens a `sqlite3.Connection` or `psycopg.Connection`; it is called by the thread that uses it, which closes it."""
R = TypeVar("R")
SQLITE: Final = "sqlite:///"
MEMORY: Final = ":memory:"
POSTGRES: Final = ("postgresql://", "postgres://")
_ALLOWED: Final = f"{SQLITE}FILE, postgresql://…, or a function"
BUSY_TIMEOUT: Final = 30.0
"""So long a SQLite file is waited for that others write to."""


def connector(database: str | Connect) -> Connect:
    """Return what opens *database*: a URL, `sqlite:///FILE` or `postgresql://…`, or a function of your own.

    Raises:
        BadParameter: it is neither; or it is in memory, where each connection would have a database of its own.
        DatabaseUnavailable: (what opens it, of a URL) it cannot be opened; says why.
        RequirementMissing: (likewise) what it is opened with is not installed.
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
        return lambda: _sqlite(Path(path))
    if database.startswith(POSTGRES):
        return lambda: _postgres(database)
    raise BadParameter(parameter="database", value=shown(database), allowed=_ALLOWED)


def is_missing(database: str | Connect) -> bool:
    """Tell whether a database is a file of SQLite's that is not there, and which would be made by opening it."""
    if not isinstance(database, str):
        return False
    url = plain_url(database)
    return url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).exists()


@contextmanager
def transaction(connect: Connect) -> Iterator[Any]:
    """Open a connection and a transaction, which is committed at the end of the block, or rolled back by an error.

    In SQLite nobody else writes from its beginning on: what it reads stays so until it is committed.

    Raises:
        DatabaseUnavailable: the file is no SQLite database.
    """
    with closing(connect()) as connection:
        if not isinstance(connection, sqlite3.Connection):
            connection.commit()  # What opening it has begun: within that, this would never be committed.
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


def carried_out(connect: Connect, work: Callable[[Any], R], what: str) -> R:
    """Do *work* in a transaction of its own, and return what comes of it.

    Args:
        connect: Opens the connection that it is given.
        work: What is done, where all tables are that it needs.
        what: Whose database it is, for people.

    Raises:
        DatabaseUnavailable: nothing is done: the database has failed before it was to commit.
        OutcomeUnknown: it has failed when it was to commit.
        DatabaseUnsuitable: nothing is done: a table is not there.
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
    """Tell whether two databases may be the same, as far as that can be told from how they are given.

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
    names = {_name(first), _name(second)}
    return len(names) == 1 or None in names


def writes_alone(connect: Connect) -> bool:
    """Tell whether nobody else writes to a database while a transaction of it lasts: so it is in SQLite."""
    with closing(connect()) as connection:
        return isinstance(connection, sqlite3.Connection)


def lacks_table(error: Exception) -> bool:
    """Tell whether a database has no such table."""
    return type(error).__name__ == "UndefinedTable" or "no such table" in str(error)


def _name(url: str) -> str | None:
    """Return a file's place, or the name that a database has on its server, which may be called in several ways.

    None: that is not said, and so left to what the server, or the environment, has by default.
    """
    if url.startswith(SQLITE):
        return str(Path(url.removeprefix(SQLITE)).resolve())
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        name = conninfo_to_dict(url).get("dbname")
    except psycopg.ProgrammingError:  # It quotes what it cannot read, which may be the password.
        allowed = (
            "postgresql://USER:PASSWORD@HOST/NAME, in which other characters than letters and digits are escaped: %20"
        )
        raise BadParameter(parameter="database", value=shown(url), allowed=allowed) from None
    return None if name is None else str(name)


def _begin(connection: sqlite3.Connection) -> None:
    """Begin to write.

    Raises:
        DatabaseUnavailable: the file is no SQLite database.
    """
    try:
        if connection.in_transaction:  # As from the start on, where `autocommit` is False: others can write beside it.
            connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "") != "SQLITE_NOTADB":
            raise
        [(_, _, file), *_] = use_plain_rows(connection.cursor()).execute("PRAGMA database_list")
        reason = f"{file} is not a SQLite database; name another file, or put a backup in its place"
        raise DatabaseUnavailable(reason=reason) from error


def _sqlite(file: Path) -> sqlite3.Connection:
    try:
        return sqlite3.connect(file, timeout=BUSY_TIMEOUT, isolation_level=None)
    except sqlite3.OperationalError as error:  # The driver does not say what of it is wrong.
        raise DatabaseUnavailable(reason=f"{file} cannot be opened: {_hindrance(file, error)}") from error


def _hindrance(file: Path, error: Exception) -> str:
    place = file.absolute()
    if file.is_dir():
        return "it is a directory; name a file in it"
    if not place.parent.exists():
        return f"there is no directory {place.parent}; create it, or correct the name of the file"
    return f"{error}; it must be a file that may be written to, in a directory that may be"


def _postgres(url: str) -> Any:
    try:
        import psycopg
    except ModuleNotFoundError as error:
        install = "install it: pip install 'penstock-hub[postgres]'"
        raise RequirementMissing(needed="psycopg", found="none", install=install) from error
    try:
        return psycopg.connect(url, autocommit=True)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(reason=" ".join(str(error).split())) from error
