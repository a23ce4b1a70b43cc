"""SQL statements of the table of cursors, in the dialect of the consumer's connection.

The kind of a connection, of `sqlite3` or `psycopg`, is recognized by its class name: no driver is imported.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.errors import BadParameter
from penstock.wire.log.reader.pages import Page

CONNECTIONS: Final = {"sqlite3": "Connection", "psycopg": "Connection"}
ASYNC_CONNECTIONS: Final = {"psycopg": "AsyncConnection"}
"""Class names of supported connections, by package."""


def parameter_mark(connection: Any, kinds: Mapping[str, str]) -> str:
    """Return the parameter style of *connection*: `?` (sqlite3 only), `%s`, or `${0}` for numbered parameters.

    Raises:
        TypeError: *connection* is not of one of *kinds*.
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


def use_plain_rows(cursor: Any) -> Any:
    """Make *cursor* return plain tuples, whatever the connection's row factory is. Return *cursor*."""
    cursor.row_factory = None if type(cursor).__module__.startswith("sqlite3") else lambda _: tuple
    return cursor


def check_table(table: Any) -> None:
    """Raise BadParameter unless *table* is a table name with an optional schema: it becomes part of the SQL."""
    if not isinstance(table, str) or not all(part.isidentifier() for part in table.split(".")):
        raise BadParameter(parameter="table", value=table, allowed="a name, or schema.name")


TABLE: Final = "penstock_cursor"

_CREATE: Final = """
CREATE TABLE IF NOT EXISTS {table} (
    feed        text NOT NULL,
    consumer    text NOT NULL,
    "partition" integer NOT NULL,
    cursor      text NOT NULL,
    PRIMARY KEY (feed, consumer, "partition")
)
"""
_LOAD: Final = 'SELECT "partition", cursor FROM {table} WHERE feed = {0} AND consumer = {1} ORDER BY "partition"'
_STORE: Final = """
INSERT INTO {table} AS kept (feed, consumer, "partition", cursor) VALUES ({0}, {1}, {2}, {3})
ON CONFLICT (feed, consumer, "partition") DO UPDATE SET cursor = excluded.cursor WHERE kept.cursor <> excluded.cursor
"""
_ADVANCE: Final = """
INSERT INTO {table} AS kept (feed, consumer, "partition", cursor) VALUES ({0}, {1}, {2}, {3})
ON CONFLICT (feed, consumer, "partition") DO UPDATE SET cursor = excluded.cursor WHERE kept.cursor = {4}
"""


class CursorStatements:
    """The statements of the table for one kind of connection."""

    def __init__(self, connection: Any, kinds: Mapping[str, str], table: str) -> None:
        check_table(table)
        mark = parameter_mark(connection, kinds)
        marks = [mark.format(number) for number in range(1, 6)]
        self.create, self.load, self.store, self.advance = (
            statement.format(*marks, table=table) for statement in (_CREATE, _LOAD, _STORE, _ADVANCE)
        )


def list_moved_partitions(page: Page) -> Iterator[tuple[int, str, str]]:
    """Yield for each partition that *page* advances: the partition, its new cursor, and its previous cursor."""
    for partition, cursor in page.cursors.items():
        expected = page.since.get(partition, cursor)
        if expected != cursor:
            yield partition, cursor, expected


def decode_row(row: tuple[Any, Any]) -> tuple[int, str]:
    """Return the partition and the cursor of *row*; some connections return text as bytes."""
    partition, cursor = row
    return partition, cursor.decode() if isinstance(cursor, bytes) else cursor
