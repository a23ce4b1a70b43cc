"""Whoever is killed, whenever: the table equals the fold of the log."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from penstock.client import Client
from penstock.processing import FeedSource
from penstock.testing.live_hub import live_hub
from tests.processing.balances import BALANCES, folded
from tests.processing.killing import BATCH, killed_again_and_again, numbers

KILLS = 6
ACCOUNTS = 40


def table(url: str) -> dict[str, tuple[int, int, int]]:
    opened: Any = sqlite3.connect(url[10:]) if url.startswith("sqlite") else psycopg.connect(url)
    with closing(opened) as connection:
        found = connection.execute("SELECT key, total, events, last FROM balances").fetchall()
    return {key: (total, events, last) for key, total, events, last in found}


def test_the_table_is_the_fold_of_the_log_whoever_was_killed(database_url: str, tmp_path: Path) -> None:
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type(
            "booked", partition_count=4, partition_strategy="hash", partition_key_fields=["account"]
        )
        arguments = [hub.url, database_url, "booked"]
        killed_again_and_again(hub, "tests.processing.balances", arguments, kills=KILLS, accounts=ACCOUNTS)
        with BALANCES.local(FeedSource(hub.url, "booked"), database_url) as last:
            last.wait_until_caught_up(300)
        found = numbers(client)
    assert len(found) > KILLS * BATCH
    assert len(found) == len(set(found))
    assert table(database_url) == folded(sorted(found), ACCOUNTS)
