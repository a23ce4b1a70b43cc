"""Reads and changes a database of a test by its URL."""

import sqlite3
from contextlib import closing
from typing import Any

import psycopg


def connect(url: str) -> Any:
    """Return a new connection, which begins transactions by itself."""
    return sqlite3.connect(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else psycopg.connect(url)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with closing(connect(url)) as connection:
        return list(connection.execute(query).fetchall())


def execute(url: str, *statements: str) -> None:
    """Execute statements in one transaction."""
    with closing(connect(url)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
