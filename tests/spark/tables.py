"""What databases hold."""

import sqlite3
from contextlib import closing
from typing import Any

import psycopg


def table(url: str) -> dict[str, tuple[int, int, int]]:
    """Return the rows of the view `balances`, by account."""
    found = rows_of(url, "SELECT key, total, events, last FROM balances")
    return {key: (total, events, last) for key, total, events, last in found}


def rows_of(url: str, query: str) -> list[tuple[Any, ...]]:
    """Return what a query finds in a database."""
    opened: Any = sqlite3.connect(url[10:]) if url.startswith("sqlite") else psycopg.connect(url)
    with closing(opened) as connection:
        return [tuple(row) for row in connection.execute(query).fetchall()]
