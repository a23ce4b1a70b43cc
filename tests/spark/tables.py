"""What the view `balances` of a database shows."""

import sqlite3
from contextlib import closing
from typing import Any

import psycopg


def table(url: str) -> dict[str, tuple[int, int, int]]:
    """Return its rows, by account."""
    opened: Any = sqlite3.connect(url[10:]) if url.startswith("sqlite") else psycopg.connect(url)
    with closing(opened) as connection:
        found = connection.execute("SELECT key, total, events, last FROM balances").fetchall()
    return {key: (total, events, last) for key, total, events, last in found}
