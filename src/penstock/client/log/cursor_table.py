# Generated from async_cursor_table.py by scripts/generate_sync_clients.py: do not edit.
"""A table of cursors in the consumer's own database.

A consumer that stores its cursors in the transaction that stores the effects of the events gets each effect exactly
once, even if it is killed in between.
"""

from collections.abc import Mapping
from typing import Any

from penstock.client.log.cursor_statements import (
    CONNECTIONS,
    TABLE,
    CursorStatements,
    decode_row,
    list_moved_partitions,
    use_plain_rows,
)
from penstock.errors import PositionMoved
from penstock.wire.log.reader.pages import Page


class CursorTable:
    """Cursors of consumers, stored in the database of *connection*, a `sqlite3` or `psycopg` connection.

    It neither commits nor rolls back: its statements are part of the caller's transaction. The connection may have any
    row, cursor and text factory.

    Args:
        connection: The consumer's connection.
        table: The name of the table.

    Raises:
        TypeError: The connection is of another type.
    """

    def __init__(self, connection: Any, *, table: str = TABLE) -> None:
        self._connection = connection
        self._statements = CursorStatements(connection, CONNECTIONS, table)

    def create(self) -> None:
        """Create the table if it does not exist. Not needed if the consumer's migrations create it."""
        self._run(self._statements.create)

    def load(self, feed: str, consumer: str) -> dict[int, str]:
        """Return the stored cursors of *consumer* in *feed* by partition; empty if none are stored."""
        found = self._run(self._statements.load, feed, consumer)
        return dict(map(decode_row, found.fetchall()))

    def store(self, feed: str, consumer: str, cursors: Mapping[int, str]) -> None:
        """Store *cursors*. Cursors of other partitions are kept, so several workers can share a consumer name."""
        for partition, cursor in cursors.items():
            self._run(self._statements.store, feed, consumer, partition, cursor)

    def advance(self, feed: str, consumer: str, page: Page) -> None:
        """Store the cursors of *page*, if the stored cursors are still those that the page was read from.

        If a consumer runs twice by accident, each event still takes effect once: the second process gets an error, and
        must roll back its transaction.

        Raises:
            PositionMoved: Another process has stored another cursor meanwhile.
        """
        for partition, cursor, expected in list_moved_partitions(page):
            done = self._run(self._statements.advance, feed, consumer, partition, cursor, expected)
            if not done.rowcount:
                raise PositionMoved.of(
                    "cursor-moved", feed=feed, consumer=consumer, partition=partition, expected=expected
                )

    def _run(self, statement: str, *values: object) -> Any:
        cursor = use_plain_rows(self._connection.cursor())
        cursor.execute(statement, values)
        return cursor
