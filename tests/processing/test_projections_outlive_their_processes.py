"""Whoever is killed, whenever: the table equals the fold of the log."""

import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from penstock.client import Client
from penstock.errors import PenstockError
from penstock.processing import FeedSource
from penstock.testing.live_hub import live_hub
from tests.processing.balances import BALANCES, folded

KILLS = 6
ACCOUNTS = 40
ROOT = Path(__file__).parent.parent.parent


class Publisher(threading.Thread):
    """Publishes numbers until it is told to stop, and knows which are in the feed: no batch is tried twice."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._over = threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        with Client(self._url, patience=0) as client:
            n = 0
            while not self._over.is_set():
                try:
                    client.publish("booked", [{"account": str(k % ACCOUNTS), "n": k} for k in range(n, n + 50)])
                    n += 50
                except PenstockError:
                    n += 50  # It may be in the feed, or not: the feed is asked in the end.
                    time.sleep(0.05)
                time.sleep(0.01)

    def stop(self) -> None:
        self._over.set()
        self.join()


def start(*arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.processing.balances", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def table(url: str) -> dict[str, tuple[int, int, int]]:
    opened: Any = sqlite3.connect(url[10:]) if url.startswith("sqlite") else psycopg.connect(url)
    with closing(opened) as connection:
        found = connection.execute("SELECT key, total, events, last FROM balances").fetchall()
    return {key: (total, events, last) for key, total, events, last in found}


def test_the_table_is_the_fold_of_the_log_whoever_was_killed(database_url: str, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type(
            "booked", partition_count=4, partition_strategy="hash", partition_key_fields=["account"]
        )
        publisher = Publisher(hub.url)
        publisher.start()
        process = start(hub.url, database_url, "booked")
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.05, 0.6))
            if chance.random() < 0.7:
                kill(process)
                process = start(hub.url, database_url, "booked")
            else:
                hub.kill()
                hub.start()
        publisher.stop()
        kill(process)
        with BALANCES.local(FeedSource(hub.url, "booked"), database_url) as last:
            last.wait_until_caught_up(60)
        numbers = [event.data["n"] for event in _all(client)]
    assert len(numbers) > KILLS * 50
    assert len(numbers) == len(set(numbers))
    assert table(database_url) == folded(sorted(numbers), ACCOUNTS)


def _all(client: Client) -> list[Any]:
    feed = client.feed("booked")
    cursors, found = feed.cursors(), []
    while (page := feed.read(cursors)).events:
        found += page.events
        cursors = dict(page.cursors)
    return found
