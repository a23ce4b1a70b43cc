"""Invariants of the examples `ship_in_batches` and `charge_at_once` hold after kills and failures."""

import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import examples
from tests.processing.office import until
from tests.processing.programs import ROOT, Program, running
from tests.processing.reading import read_feed

SIZE = 10
KILLS = examples(2, 6)
MORE = 60
"""So many shipments are completed at most before each kill."""
SHIPMENTS = KILLS * MORE + 45
ORDERS = 2_000


@pytest.fixture
def hub(emptied_hub: LiveHub) -> LiveHub:
    return emptied_hub


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    with Client(hub.url) as client:
        keyed: Any = {"partition_strategy": "hash", "partition_count": 2}
        client.create_event_type("shipment.completed", partition_key_fields=["shipment"], **keyed)
        client.create_event_type("batch.closed", category="business")
        client.create_event_type("order.placed", category="business", partition_key_fields=["order_id"], **keyed)
        yield client


@pytest.fixture
def chance() -> random.Random:
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201 - shown when the test fails
    return random.Random(seed)


def example(name: str, *arguments: str) -> AbstractContextManager[Program]:
    """Run an example as a process."""
    return running(str(ROOT / "examples" / f"{name}.py"), *arguments)


def kill_soon(program: Program, seconds: float) -> None:
    """Kill a program in the middle of its work after so many seconds."""
    time.sleep(seconds)
    program.kill()


def rows(path: Path, query: str, *given: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, timeout=300)) as connection:
        return connection.execute(query, given).fetchall()


def complete(client: Client, numbers: range) -> None:
    client.publish("shipment.completed", [{"shipment": f"S{number}"} for number in numbers])


def check_shipments(path: Path, announced: list[Any]) -> None:
    """Check the invariants of shipments and batches, which hold at every moment."""
    batches: dict[int, set[str]] = {}
    for shipment, batch in rows(path, "SELECT shipment, batch FROM shipments"):
        batches.setdefault(batch, set()).add(shipment)
    assert rows(path, "SELECT batch, size FROM batches ORDER BY batch") == [
        (batch, len(batches[batch])) for batch in sorted(batches)
    ]
    assert all(len(shipments) <= SIZE for shipments in batches.values())
    assert sum(len(shipments) < SIZE for shipments in batches.values()) <= 1, "one batch is open"
    batch_of = {event.metadata["eid"]: event.data["batch"] for event in announced}
    assert len(batch_of) == len({*batch_of.values()}), "each batch has one id"
    for event in announced:
        assert set(event.data["shipments"]) == batches[event.data["batch"]]
    assert rows(path, "SELECT shipment FROM shipments WHERE dispatched > 1") == []


def test_shipments_are_batched_and_dispatched_once_after_kills(
    hub: LiveHub, client: Client, tmp_path: Path, chance: random.Random
) -> None:
    path = tmp_path / "shipping.db"
    arguments = ("ship_in_batches", hub.url, str(path))
    count = 0
    for _ in range(KILLS):
        with example(*arguments) as shipping:
            assert shipping.line() == "shipping"
            more = chance.randrange(20, MORE)
            complete(client, range(count, count + more))
            complete(client, range(max(0, count - 5), count))  # Shipments may be completed twice.
            count += more
            kill_soon(shipping, chance.uniform(0.0, 0.3))
        check_shipments(path, read_feed(client, "batch.closed"))

    complete(client, range(count, SHIPMENTS))
    with example(*arguments) as shipping:
        assert shipping.line() == "shipping"
        wanted = [(SHIPMENTS // SIZE * SIZE,)]
        until(lambda: rows(path, "SELECT count(*) FROM shipments") == [(SHIPMENTS,)])
        until(lambda: rows(path, "SELECT sum(dispatched) FROM shipments") == wanted)
        shipping.terminate()

    announced = read_feed(client, "batch.closed")
    check_shipments(path, announced)
    assert len({event.metadata["eid"] for event in announced}) == SHIPMENTS // SIZE
    query = "SELECT dispatched, count(*) FROM shipments JOIN batches USING (batch) GROUP BY dispatched, size = ?"
    assert sorted(rows(path, query, SIZE)) == [(0, SHIPMENTS % SIZE), (1, wanted[0][0])]


def payments(path: Path) -> dict[str, str]:
    """Return the taker of each order's payment; each is taken once."""
    found = rows(path, "SELECT order_id, taken_by FROM payments")
    assert len(found) == len({order for order, _ in found})
    return dict(found)


def test_payment_that_fails_at_once_is_taken_by_the_reaction(hub: LiveHub, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "bank.db"
    with example("charge_at_once", "shop", hub.url, str(path)) as shop:
        shop.tell("A1")
        assert shop.line() == "paid A1"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            shop.tell("A2")
            assert shop.line() == "accepted A2 (payment follows: database is locked)"
        assert payments(path) == {"A1": "request"}
        with example("charge_at_once", "guarantee", hub.url, str(path)) as guarantee:
            assert guarantee.line() == "caught up"
            guarantee.terminate()
    assert payments(path) == {"A1": "request", "A2": "reaction"}
    assert len(read_feed(client, "order.placed")) == 2


def test_every_order_is_paid_once_after_kills(
    hub: LiveHub, client: Client, tmp_path: Path, chance: random.Random
) -> None:
    path = tmp_path / "bank.db"
    for turn in range(examples(1, 4)):
        with (
            example("charge_at_once", "shop", hub.url, str(path)) as shop,
            example("charge_at_once", "guarantee", hub.url, str(path)) as guarantee,
        ):
            shop.tell(*(f"{turn}-{number}" for number in range(ORDERS)))
            assert shop.line()
            for program in chance.sample([shop, guarantee], 2):
                kill_soon(program, chance.uniform(0.0, 0.4))
    with example("charge_at_once", "guarantee", hub.url, str(path)) as guarantee:
        assert guarantee.line() == "caught up"
        guarantee.terminate()

    placed = Counter(event.data["order_id"] for event in read_feed(client, "order.placed"))
    assert set(placed.values()) == {1}
    assert payments(path).keys() == placed.keys()


@pytest.mark.parametrize(
    ("words", "event_type"),
    [
        (["ship_in_batches"], "shipment.completed"),
        (["ship_in_batches"], "batch.closed"),
        (["charge_at_once", "guarantee"], "order.placed"),
    ],
)
def test_example_ends_with_a_failure_when_one_of_its_processors_does(
    hub: LiveHub, client: Client, tmp_path: Path, words: list[str], event_type: str
) -> None:
    with example(*words, hub.url, str(tmp_path / "own.db")) as program:
        assert program.line() in ("shipping", "caught up")
        client.delete_event_type(event_type)
        program.end(status=1)
        assert f"EventTypeNotFound: there is no event type {event_type!r}" in program.errors()
