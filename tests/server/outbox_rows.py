"""Commits events to the outbox of an SQLite database, as any language can."""

import sqlite3
from contextlib import closing


def insert(url: str, event_types: list[str]) -> None:
    """Commit an event to the outbox for each of *event_types*, with its number as id."""
    rows = [(name, f'{{"id":{number}}}') for number, name in enumerate(event_types)]
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=300)) as service, service:
        service.executemany("INSERT INTO penstock_outbox (event_type, data) VALUES (?, ?)", rows)
