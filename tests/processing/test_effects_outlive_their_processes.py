"""Whoever is killed, whenever: what a `Transactional` writes is there once for each event, in order."""

import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.client import Client
from penstock.testing.live_hub import live_hub
from tests.exhaustive import examples, exhaustive
from tests.processing.entries import counter, table
from tests.processing.killing import BATCH, killed_again_and_again, numbers

KILLS = examples(3, 12)
ACCOUNTS = 40
LEASE_S = "1.5"
AHEAD = "penstock_checkpoints_ahead"


def count(url: str, name: str) -> int:
    """Return how many rows a table has; 0: there is none."""
    with closing(connected(url)) as connection:
        try:
            [(found,)] = connection.execute(f"SELECT count(*) FROM {name}").fetchall()
        except (sqlite3.OperationalError, psycopg.errors.UndefinedTable):
            return 0
    return int(found)


def connected(url: str) -> Any:
    return sqlite3.connect(url[10:]) if url.startswith("sqlite") else psycopg.connect(url)


@pytest.mark.parametrize("together", [1, exhaustive(3)], ids=["alone", "three that share the work"])
def test_each_event_is_written_once_in_order_whoever_was_killed(
    database_url: str, tmp_path: Path, together: int
) -> None:
    with closing(connected(database_url)) as connection:
        connection.execute(table(database_url))
        connection.commit()
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type(
            "booked", partition_count=4, partition_strategy="hash", partition_key_fields=["account"]
        )
        arguments = [hub.url, database_url] if together == 1 else [hub.url, database_url, LEASE_S]
        program = "tests.processing.entries"
        killed_again_and_again(
            hub,
            program,
            arguments,
            kills=KILLS,
            accounts=ACCOUNTS,
            together=together,
            has_begun=lambda: count(database_url, AHEAD) and count(database_url, "entries"),
        )
        assert count(database_url, "entries")
        with counter(hub.url, database_url) as last:
            last.wait_until_caught_up(300)
        found = numbers(client)
    with closing(connected(database_url)) as connection:
        rows = connection.execute("SELECT account, n FROM entries ORDER BY number").fetchall()
    assert len(found) > KILLS * BATCH
    assert sorted(n for _, n in rows) == sorted(found)
    by_account = defaultdict(list)
    for account, n in rows:
        by_account[account].append(n)
    assert not [account for account, each in by_account.items() if each != sorted(each)], "out of order"
    assert count(database_url, AHEAD) == 0
