"""A consumer's own connection, `sqlite3` or `psycopg`, told by the names of its classes: no driver is imported.

A table of cursors in the consumer's own database, written in the consumer's own transactions.

Store the cursors in the transaction that stores what was made of the events, and each event has its effect exactly
once, whatever is killed in between.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.errors import BadParameter, CursorMoved
from penstock.wire.log.reader.pages import Page

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


class _Statements:
    """The table's statements as one kind of connection wants them."""

    def __init__(self, connection: Any, kinds: Mapping[str, str], table: str) -> None:
        check_table(table)
        mark = parameter_mark(connection, kinds)
        marks = [mark.format(number) for number in range(1, 6)]
        self.create, self.load, self.store, self.advance = (
            statement.format(*marks, table=table) for statement in (_CREATE, _LOAD, _STORE, _ADVANCE)
        )


class CursorTable:
    """The cursors that consumers keep in the database of *connection*, a `sqlite3` or `psycopg` connection.

    It never commits and never rolls back: what it does is part of the caller's transaction. It does not mind the
    connection's row, cursor and text factories.

    Args:
        connection: The consumer's connection.
        table: The table's name.

    Raises:
        TypeError: the connection is of another kind.
    """

    def __init__(self, connection: Any, *, table: str = TABLE) -> None:
        self._connection = connection
        self._statements = _Statements(connection, SYNC, table)

    def create(self) -> None:
        """Create the table if it is not there. Consumers whose migrations create it need not call this."""
        self._run(self._statements.create)

    def load(self, feed: str, consumer: str) -> dict[int, str]:
        """Return the cursors that *consumer* has stored for *feed*, partition to cursor; empty at first."""
        return dict(map(_decoded, self._run(self._statements.load, feed, consumer).fetchall()))

    def store(self, feed: str, consumer: str, cursors: Mapping[int, str]) -> None:
        """Store *cursors*. Those of other partitions stay, so that several workers can share a consumer's name."""
        for partition, cursor in cursors.items():
            self._run(self._statements.store, feed, consumer, partition, cursor)

    def advance(self, feed: str, consumer: str, page: Page) -> None:
        """Store the cursors of *page*, provided that the consumer still stands where the page was read from.

        With this, a consumer that runs twice by accident still has each event's effect once: the second to come gets an
        error, and its transaction must be rolled back.

        Raises:
            CursorMoved: another process has stored another cursor meanwhile.
        """
        for partition, cursor, expected in _moves(page):
            if not self._run(self._statements.advance, feed, consumer, partition, cursor, expected).rowcount:
                raise CursorMoved(feed=feed, consumer=consumer, partition=partition, expected=expected)

    def _run(self, statement: str, *values: object) -> Any:
        cursor = plain(self._connection.cursor())
        cursor.execute(statement, values)
        return cursor


class AsyncCursorTable:
    """The same table over a `psycopg.AsyncConnection`; see `CursorTable`."""

    def __init__(self, connection: Any, *, table: str = TABLE) -> None:
        self._connection = connection
        self._statements = _Statements(connection, ASYNC, table)

    async def create(self) -> None:
        """Create the table if it is not there; see `CursorTable.create`."""
        await self._run(self._statements.create)

    async def load(self, feed: str, consumer: str) -> dict[int, str]:
        """Return the cursors that *consumer* has stored for *feed*; see `CursorTable.load`."""
        return dict(map(_decoded, await (await self._run(self._statements.load, feed, consumer)).fetchall()))

    async def store(self, feed: str, consumer: str, cursors: Mapping[int, str]) -> None:
        """Store *cursors*; see `CursorTable.store`."""
        for partition, cursor in cursors.items():
            await self._run(self._statements.store, feed, consumer, partition, cursor)

    async def advance(self, feed: str, consumer: str, page: Page) -> None:
        """Store the cursors of *page*, if the consumer still stands where it was read from; see `CursorTable.advance`.

        Raises:
            CursorMoved: another process has stored another cursor meanwhile.
        """
        for partition, cursor, expected in _moves(page):
            if not (await self._run(self._statements.advance, feed, consumer, partition, cursor, expected)).rowcount:
                raise CursorMoved(feed=feed, consumer=consumer, partition=partition, expected=expected)

    async def _run(self, statement: str, *values: object) -> Any:
        cursor = plain(self._connection.cursor())
        await cursor.execute(statement, values)
        return cursor


def _moves(page: Page) -> Iterator[tuple[int, str, str]]:
    for partition, cursor in page.cursors.items():
        expected = page.since.get(partition, cursor)
        if expected != cursor:
            yield partition, cursor, expected


def _decoded(row: tuple[Any, Any]) -> tuple[int, str]:
    partition, cursor = row
    return partition, cursor.decode() if isinstance(cursor, bytes) else cursor
