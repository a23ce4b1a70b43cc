"""What it costs to hold an event against its event type before it is inserted into the outbox."""

import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import count
from typing import Any

import psycopg

from bench.events import BUSINESS_SCHEMA, FEED, event
from bench.figure import Row, Scale, Target, figure
from bench.measure import Side, in_turn
from bench.place import Place, file_of
from penstock import outbox
from penstock.client import Client

MANY = 1000
SQLITE_INSERT = "INSERT INTO penstock_outbox (event_type, data) VALUES (?, ?)"
POSTGRES_INSERT = "INSERT INTO penstock_outbox (event_type, data) VALUES (%s, %s)"


@figure("outbox-publish", "publishing")
def outbox_publish(place: Place, scale: Scale) -> Iterable[Row]:
    """Publishing events of 384 bytes by the outbox, with a schema, beside the bare INSERT, by processor time."""
    for kind in ("SQLite", "PostgreSQL"):
        url = place.database(kind)
        with place.hub(url) as hub, Client(hub.url) as client:
            client.create_event_type(FEED, schema=BUSINESS_SCHEMA)
        with closing(_connect(url)) as connection:
            rounds = in_turn(_sides(connection, kind, scale), scale.rounds)
        place.drop(url)
        plain = rounds.median("plain")
        for name, what, each in (("publish", "`publish`", 1), ("many", f"`publish_many` of {MANY}", MANY)):
            took = rounds.median(name) / each
            target = Target("<=", 20, "µs more")
            yield Row(f"{kind}: {what} beside a bare INSERT of one event", _us(took), _us(plain), took - plain, target)


def _sides(connection: Any, kind: str, scale: Scale) -> dict[str, Side]:
    insert, numbers = SQLITE_INSERT if kind == "SQLite" else POSTGRES_INSERT, count()
    acts: dict[str, Callable[[], object]] = {
        "plain": lambda: connection.execute(insert, (FEED, event(next(numbers)))),
        "publish": lambda: outbox.publish(connection, FEED, event(next(numbers))),
        "many": lambda: outbox.publish_many(connection, FEED, [event(next(numbers)) for _ in range(MANY)]),
    }
    return {name: _timed(connection, act, scale) for name, act in acts.items()}


def _connect(url: str) -> Any:
    if url.startswith("sqlite"):
        return sqlite3.connect(file_of(url), isolation_level=None)
    return psycopg.connect(url, autocommit=True)


def _timed(connection: Any, act: Callable[[], object], scale: Scale) -> Side:
    """Return a side that tells how many microseconds of this process *act* takes; what it does is rolled back."""

    def run() -> float:
        connection.execute("BEGIN")
        started, done = time.process_time(), 0
        while time.process_time() - started < scale.seconds / 3:
            act()
            done += 1
        took = (time.process_time() - started) / done
        connection.execute("ROLLBACK")
        return took * 1e6

    return run


def _us(value: float) -> str:
    return f"{value:.1f} µs"
