"""A table of cursors in the consumer's own database, for asyncio.

Store the cursors in the transaction that stores what was made of the events, and each event has its effect exactly
once, whatever is killed in between.
"""

from collections.abc import Mapping
from typing import Any

from penstock.client.log.cursor_statements import ASYNC_CONNECTIONS, TABLE, Statements, decoded, moves, plain
from penstock.errors import CursorMoved
from penstock.wire.log.reader.pages import Page


class AsyncCursorTable:
    """The cursors that consumers keep in the database of *connection*, a `psycopg.AsyncConnection`.

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
        self._statements = Statements(connection, ASYNC_CONNECTIONS, table)

    async def create(self) -> None:
        """Create the table if it is not there. Consumers whose migrations create it need not call this."""
        await self._run(self._statements.create)

    async def load(self, feed: str, consumer: str) -> dict[int, str]:
        """Return the cursors that *consumer* has stored for *feed*, partition to cursor; empty at first."""
        found = await self._run(self._statements.load, feed, consumer)
        return dict(map(decoded, await found.fetchall()))

    async def store(self, feed: str, consumer: str, cursors: Mapping[int, str]) -> None:
        """Store *cursors*. Those of other partitions stay, so that several workers can share a consumer's name."""
        for partition, cursor in cursors.items():
            await self._run(self._statements.store, feed, consumer, partition, cursor)

    async def advance(self, feed: str, consumer: str, page: Page) -> None:
        """Store the cursors of *page*, provided that the consumer still stands where the page was read from.

        With this, a consumer that runs twice by accident still has each event's effect once: the second to come gets an
        error, and its transaction must be rolled back.

        Raises:
            CursorMoved: another process has stored another cursor meanwhile.
        """
        for partition, cursor, expected in moves(page):
            done = await self._run(self._statements.advance, feed, consumer, partition, cursor, expected)
            if not done.rowcount:
                raise CursorMoved(feed=feed, consumer=consumer, partition=partition, expected=expected)

    async def _run(self, statement: str, *values: object) -> Any:
        cursor = plain(self._connection.cursor())
        await cursor.execute(statement, values)
        return cursor
