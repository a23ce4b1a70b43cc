"""Effects of a `Transactional` are there once and in order, and a projection is the fold of its log, after kills.

The kills hit the processors and the hub at random moments while a feed grows.
"""

import random
import sqlite3
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.client import Client
from penstock.errors import PenstockError
from penstock.testing.live_hub import live_hub
from tests.exhaustive import examples, exhaustive
from tests.processing.balances import folded
from tests.processing.bookkeeping import processors, table
from tests.processing.office import until
from tests.processing.programs import Program, running

KILLS = examples(3, 12)
ACCOUNTS = 40
LEASE_SECONDS = "1.5"
BATCH = 50
AHEAD = "penstock_checkpoints_ahead"


class Publisher(threading.Thread):
    """Publishes numbers until it is stopped; they belong to the accounts in turn. No batch is tried twice."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._over = threading.Event()
        self.acknowledged = 0

    def run(self) -> None:
        with Client(self._url, retry_timeout=0) as client:
            n = 0
            while not self._over.wait(0.1):  # So that any machine can catch up with what is left.
                batch = [{"account": str(k % ACCOUNTS), "n": k} for k in range(n, n + BATCH)]
                n += BATCH
                try:
                    client.publish("booked", batch)
                    self.acknowledged += BATCH
                except PenstockError:
                    time.sleep(0.05)  # It may be in the feed, or not: the feed is asked in the end.

    def stop(self) -> None:
        self._over.set()
        self.join()


def read_numbers(client: Client) -> list[int]:
    """Return all that is in the feed."""
    feed = client.feed("booked")
    cursors, found = feed.cursors(), list[Any]()
    while (page := feed.read(cursors)).events:
        found += [event.data["n"] for event in page.events]
        cursors = dict(page.cursors)
    return found


def connect(url: str) -> Any:
    return sqlite3.connect(url[10:]) if url.startswith("sqlite") else psycopg.connect(url)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query; none: there is no such table yet."""
    with closing(connect(url)) as connection:
        try:
            return list(connection.execute(query).fetchall())
        except (sqlite3.OperationalError, psycopg.errors.UndefinedTable):
            return []


@pytest.mark.parametrize("together", [1, exhaustive(3)], ids=["alone", "three that share the work"])
def test_effects_and_projection_have_each_event_once_after_kills(
    database_url: str, tmp_path: Path, together: int
) -> None:
    chance = random.Random(seed := random.randrange(1 << 32))
    print("seed", seed)  # noqa: T201 - It is shown when the test fails.
    with closing(connect(database_url)) as connection:
        connection.execute(table(database_url))
        connection.commit()
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, Client(hub.url) as client, ExitStack() as programs:
        client.create_event_type(
            "booked", partition_count=4, partition_strategy="hash", partition_key_fields=["account"]
        )
        arguments = [hub.url, database_url, *([LEASE_SECONDS] if together > 1 else [])]

        def start() -> Program:
            program = programs.enter_context(running("-m", "tests.processing.bookkeeping", *arguments))
            assert program.line() == "running"
            return program

        publisher = Publisher(hub.url)
        publisher.start()
        alive = [start() for _ in range(together)]
        for kill in range(KILLS):
            time.sleep(chance.uniform(0.05, 0.6) * together)
            if kill == KILLS - 1:
                until(lambda: all(rows(database_url, f"SELECT 1 FROM {name} LIMIT 1") for name in (AHEAD, "entries")))
            if kill % 3 == 1:
                hub.kill()
                hub.start()
            else:
                alive.pop(chance.randrange(together)).kill()
                alive.append(start())
            for ended in [each for each in alive if each.fork.poll() is not None]:
                alive.remove(ended)
                alive.append(start())
        until(lambda: publisher.acknowledged > KILLS * BATCH)
        publisher.stop()
        programs.close()  # All are killed.
        for processor in processors(hub.url, database_url):
            with processor:
                processor.wait_until_caught_up(300)
        published = read_numbers(client)
    assert len(published) >= publisher.acknowledged
    assert len(published) == len(set(published))
    entries = rows(database_url, "SELECT account, n FROM entries ORDER BY number")
    assert sorted(n for _, n in entries) == sorted(published)
    by_account = defaultdict(list)
    for account, n in entries:
        by_account[account].append(n)
    assert not [account for account, each in by_account.items() if each != sorted(each)], "out of order"
    assert not rows(database_url, f"SELECT 1 FROM {AHEAD}")
    balances = rows(database_url, "SELECT key, total, events, last FROM balances")
    assert {key: tuple(values) for key, *values in balances} == folded(sorted(published), ACCOUNTS)
