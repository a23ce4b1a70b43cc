"""A MessageDB with events for tests, and a stream that reads its categories."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg

from tests.spark.queries import Query

Connection = psycopg.Connection[tuple[Any, ...]]
Place = tuple[Any, ...]
"""A category, and a global position in it."""


class Categories:
    """The categories of a MessageDB, written to as services do: by `write_message`."""

    def __init__(self, url: str) -> None:
        self.url = url

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction that lasts as long as the block; one that raises is rolled back."""
        with psycopg.connect(self.url, options="-c search_path=message_store") as connection:
            yield connection

    def write(self, stream: str, numbers: range = range(1)) -> None:
        """Write events that are numbers to *stream*, in one transaction."""
        with self.transaction() as connection:
            for number in numbers:
                write(connection, stream, number)

    def fill(self, category: str, count: int) -> None:
        """Write *count* events to ten streams of *category*, at once."""
        with self.transaction() as connection:
            connection.execute(
                "SELECT count(write_message(gen_random_uuid()::text, %s || '-' || n %% 10, 'Added',"
                " jsonb_build_object('n', n))) FROM generate_series(0, %s - 1) AS numbers (n)",
                [category, count],
            )

    def analyze(self) -> None:
        """Have Postgres gather its statistics of what is there now."""
        with self.transaction() as connection:
            connection.execute("ANALYZE messages")

    def places(self) -> list[Place]:
        """Return where the events are that can be seen."""
        with self.transaction() as connection:
            return connection.execute(
                "SELECT category(stream_name), global_position FROM messages ORDER BY 1, 2"
            ).fetchall()


def write(connection: Connection, stream: str, number: int = 0) -> None:
    """Write one event to *stream*."""
    data = json.dumps({"n": number})
    connection.execute("SELECT write_message(%s, %s, 'Added', %s)", [str(uuid4()), stream, data])


class CategoryQuery(Query):
    """A stream of categories; run after run from one checkpoint."""

    format = "messagedb"
    place = ("category", "global_position")
