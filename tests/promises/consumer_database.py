"""The database of a consumer, with connections of its workers."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import psycopg
import pytest


@contextmanager
def connections(request: pytest.FixtureRequest, factory: pytest.TempPathFactory, count: int) -> Iterator[list[Any]]:
    """Open connections to a new database of the kind that *request* has as its parameter."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            path = factory.mktemp("consumer") / "consumer.db"
            yield [stack.enter_context(closing(sqlite3.connect(path))) for _ in range(count)]
        else:
            cluster = request.getfixturevalue("postgres_cluster")
            url = cluster.create_database()
            stack.callback(cluster.drop_database, url)
            yield [stack.enter_context(psycopg.connect(url)) for _ in range(count)]
