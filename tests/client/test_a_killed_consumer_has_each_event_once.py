"""A consumer that is killed repeatedly has the effect of each event in its database exactly once.

The consumers are the examples.
"""

import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from penstock.client import Client
from penstock.testing.live_hub import live_hub
from tests.client.conftest import Splitting

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDERS = 2_000


@contextmanager
def running(example: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run an example as a process; kill it at the end if it has not ended."""
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def kill_after(example: str, *arguments: str, pages: int) -> None:
    """Kill an example after *pages* pages, at a random moment."""
    with running(example, *arguments) as process:
        assert process.stdout is not None
        for _ in range(pages):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)


def read_orders(process: "subprocess.Popen[str]", wanted: int) -> None:
    assert process.stdout is not None
    while wanted > 0:
        wanted -= int(process.stdout.readline().split()[0])


def test_killed_consumer_of_splitting_partitions_has_each_event_once_in_sqlite(
    splitting: Splitting, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201 - shown when the test fails
    chance = random.Random(seed)
    feed, path = splitting.feed, str(tmp_path / "orders.db")
    feed.page_size = 20
    feed.add(0, *({"order_id": n} for n in range(1_000)))

    kill_after("consume_into_sqlite.py", splitting.url, path, pages=chance.randrange(1, 15))
    feed.continue_in(0, 1, 2)
    feed.add(1, *({"order_id": n} for n in range(1_000, 1_500)))
    kill_after("consume_into_sqlite.py", splitting.url, path, pages=chance.randrange(1, 15))
    feed.add(2, *({"order_id": n} for n in range(1_500, ORDERS)))
    kill_after("consume_into_sqlite.py", splitting.url, path, pages=chance.randrange(1, 15))
    feed.replace_by(2, 3, 4)
    with closing(sqlite3.connect(path)) as connection:
        done = connection.execute("SELECT count(*) FROM orders").fetchone()[0]
    with running("consume_into_sqlite.py", splitting.url, path) as process:
        read_orders(process, ORDERS - done)

    with closing(sqlite3.connect(path)) as connection:
        orders = Counter(order for (order,) in connection.execute("SELECT order_id FROM orders"))
    assert orders == Counter(range(ORDERS))


def test_killed_workers_have_each_event_once_in_postgres(tmp_path: Path, postgres_url: str) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201 - shown when the test fails
    chance = random.Random(seed)
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", partition_count=4)
        client.publish("order.placed", ({"order_id": n} for n in range(ORDERS)))
        arguments = (f"{hub.url}/feeds/order.placed", postgres_url, "2")

        for worker in (0, 1, 0, 1):
            kill_after("consume_into_postgres.py", *arguments, str(worker), pages=chance.randrange(1, 4))
        with (
            running("consume_into_postgres.py", *arguments, "0") as one,
            running("consume_into_postgres.py", *arguments, "1") as two,
            psycopg.connect(postgres_url, autocommit=True) as connection,
        ):
            for process in (one, two):
                assert process.stdout is not None
                process.stdout.readline()
            client.publish("order.placed", {"order_id": ORDERS})
            while connection.execute("SELECT count(*), pg_sleep(0.01) FROM orders").fetchone() != (ORDERS + 1, ""):
                assert (one.poll(), two.poll()) == (None, None)
            orders = Counter(order for (order,) in connection.execute("SELECT order_id FROM orders"))

            for process in (one, two):
                process.send_signal(signal.SIGTERM)
            assert [process.wait(300) for process in (one, two)] == [0, 0]

    assert orders == Counter(range(ORDERS + 1))
