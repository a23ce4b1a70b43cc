"""A consumer that is killed repeatedly has the effect of each event in its database exactly once.

The consumers are the examples.
"""

import random
import sqlite3
from collections import Counter
from contextlib import AbstractContextManager, closing
from pathlib import Path

import psycopg

from penstock.client import Client
from penstock.testing.live_hub import live_hub
from tests.client.conftest import Splitting
from tests.processing.programs import Program, running

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDERS = 2_000


def example(name: str, *arguments: str) -> AbstractContextManager[Program]:
    """Run an example as a process; kill it at the end if it has not ended."""
    return running(str(EXAMPLES / name), *arguments)


def kill_after(name: str, *arguments: str, pages: int) -> None:
    """Kill an example after *pages* pages, at a random moment."""
    with example(name, *arguments) as program:
        for _ in range(pages):
            assert program.line(), program.errors()
        program.kill()


def read_orders(program: Program, wanted: int) -> None:
    while wanted > 0:
        wanted -= int(program.line().split()[0])


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
    with example("consume_into_sqlite.py", splitting.url, path) as program:
        read_orders(program, ORDERS - done)

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
            example("consume_into_postgres.py", *arguments, "0") as one,
            example("consume_into_postgres.py", *arguments, "1") as two,
            psycopg.connect(postgres_url, autocommit=True) as connection,
        ):
            for program in (one, two):
                program.line()
            client.publish("order.placed", {"order_id": ORDERS})
            while connection.execute("SELECT count(*), pg_sleep(0.01) FROM orders").fetchone() != (ORDERS + 1, ""):
                assert (one.fork.poll(), two.fork.poll()) == (None, None)
            orders = Counter(order for (order,) in connection.execute("SELECT order_id FROM orders"))

            for program in (one, two):
                program.terminate()

    assert orders == Counter(range(ORDERS + 1))
