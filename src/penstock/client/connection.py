"""A consumer's own connection, `sqlite3` or `psycopg`, told by the names of its classes: no driver is imported."""

from collections.abc import Mapping
from typing import Any, Final

from penstock.errors import BadParameter

SYNC: Final = {"sqlite3": "Connection", "psycopg": "Connection"}
ASYNC: Final = {"psycopg": "AsyncConnection"}
"""Packages, and what a connection is called in each."""


def parameter_mark(connection: Any, kinds: Mapping[str, str]) -> str:
    """Return how *connection* wants a parameter written: `?` (sqlite3 alone), `%s`, or `${0}` for those by number.

    Raises:
        TypeError: *connection* is none of *kinds*; names them.
    """
    for kind in type(connection).__mro__:
        package = kind.__module__.partition(".")[0]
        if kinds.get(package) == kind.__name__:
            if package == "sqlite3":
                return "?"
            factories = {base.__name__ for base in connection.cursor_factory.__mro__}
            return "${0}" if factories & {"RawCursor", "AsyncRawCursor"} else "%s"
    wanted = " or ".join(f"{package}.{name}" for package, name in kinds.items())
    raise TypeError(f"a {wanted} is wanted, not a {type(connection).__module__}.{type(connection).__qualname__}")


def plain(cursor: Any) -> Any:
    """Have *cursor* give rows as they come, whatever the connection's row factory makes of them."""
    cursor.row_factory = None if type(cursor).__module__.startswith("sqlite3") else lambda _: tuple
    return cursor


def check_table(table: Any) -> None:
    """Raise BadParameter unless *table* is the name of a table, with its schema or without: it becomes part of SQL."""
    if not isinstance(table, str) or not all(part.isidentifier() for part in table.split(".")):
        raise BadParameter(parameter="table", value=table, allowed="a name, or schema.name")
