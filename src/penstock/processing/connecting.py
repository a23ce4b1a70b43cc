"""Opens the databases in which processing keeps what it has to know, and runs transactions in them."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from penstock.errors import BadParameter, DatabaseUnavailable

Connect: TypeAlias = Callable[[], Any]
"""Opens a `sqlite3.Connection` or `psycopg.Connection`; it is called by the thread that uses it, which closes it."""
SQLITE: Final = "sqlite:///"
POSTGRES: Final = ("postgresql://", "postgres://")
_PASSING: Final = frozenset(["OperationalError", "InterfaceError"])
"""What drivers call it when a database does not answer, or is busy."""
BUSY_S: Final = 30.0
"""So long a SQLite file is waited for that others write to."""


def connector(database: str | Connect) -> Connect:
    """Return what opens *database*: a URL, `sqlite:///FILE` or `postgresql://…`, or a function of your own.

    Raises:
        BadParameter: it is neither.
        DatabaseUnavailable: (what opens it, of a URL) it cannot be opened; says why.
    """
    if callable(database):
        return database
    if database.startswith(SQLITE) and len(database) > len(SQLITE):
        path = database.removeprefix(SQLITE)
        return lambda: _sqlite(Path(path))
    if database.startswith(POSTGRES):
        return lambda: _postgres(database)
    shown = f"{scheme}://…" if (scheme := database.partition("://")[0]) != database else database  # No password.
    raise BadParameter(parameter="database", value=shown, allowed=f"{SQLITE}FILE, postgresql://…, or a function")


@contextmanager
def transaction(connect: Connect) -> Iterator[Any]:
    """Open a connection and a transaction, which is committed at the end of the block, or rolled back by an error."""
    with closing(connect()) as connection:
        if not isinstance(connection, sqlite3.Connection):
            with connection.transaction():
                yield connection
            return
        if not connection.in_transaction:  # As one is from the start on, where `autocommit` is False.
            connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.rollback()
            raise
        connection.commit()


def is_passing(error: Exception) -> bool:
    """Tell whether a database has failed in a way that can pass."""
    return type(error).__name__ in _PASSING


def _sqlite(file: Path) -> sqlite3.Connection:
    try:
        return sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)
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
    import psycopg

    try:
        return psycopg.connect(url, autocommit=True)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(reason=" ".join(str(error).split())) from error
