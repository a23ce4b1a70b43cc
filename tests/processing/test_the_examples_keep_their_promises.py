"""The examples of reactions, as they stand there: whoever is killed, whatever fails, their invariants hold."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.client import FIRST, Client
from penstock.testing.live_hub import LiveHub
from tests.docs.examples import ROOT

SIZE = 10
SHIPMENTS = 405
PATIENCE_S = 300.0


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


@contextmanager
def running(example: str, *arguments: str, tells: bool = False) -> Iterator["subprocess.Popen[str]"]:
    """Run an example as a process; kill it at the end if it has not ended."""
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / f"{example}.py"), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe if tells else None, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip()


def kill_soon(process: "subprocess.Popen[str]", seconds: float) -> None:
    """Kill a process in the middle of whatever it does after so many seconds."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    assert process.poll() is None, "it has ended by itself"
    process.send_signal(signal.SIGKILL)
    process.wait()


def end(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0


def rows(path: Path, query: str, *given: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        return connection.execute(query, given).fetchall()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it has not come"
        time.sleep(0.02)


def held(client: Client, name: str) -> list[Any]:
    with client.feed(name) as feed:
        found: list[Any] = []
        for partition in feed.cursors():
            cursor = FIRST
            while (page := feed.read({partition: cursor})).events:
                cursor = page.cursors[partition]
                found += page.events
        return found


def complete(client: Client, numbers: range) -> None:
    client.publish("shipment.completed", [{"shipment": f"S{number}"} for number in numbers])


def check_shipments(path: Path, announced: list[Any]) -> None:
    """Check what has to hold at every moment."""
    batches: dict[int, set[str]] = {}
    for shipment, batch in rows(path, "SELECT shipment, batch FROM shipments"):
        batches.setdefault(batch, set()).add(shipment)
    assert rows(path, "SELECT batch, size FROM batches ORDER BY batch") == [
        (batch, len(batches[batch])) for batch in sorted(batches)
    ]
    assert all(len(shipments) <= SIZE for shipments in batches.values())
    assert sum(len(shipments) < SIZE for shipments in batches.values()) <= 1, "one batch is open"
    told = {event.metadata["eid"]: event.data for event in announced}
    assert Counter(event["batch"] for event in told.values()) == Counter({event["batch"] for event in told.values()})
    for event in announced:
        assert set(event.data["shipments"]) == batches[event.data["batch"]]
    assert rows(path, "SELECT shipment FROM shipments WHERE dispatched > 1") == []


def test_each_shipment_is_in_one_batch_and_dispatched_once_whoever_is_killed(
    hub: LiveHub, client: Client, tmp_path: Path, chance: random.Random
) -> None:
    path = tmp_path / "shipping.db"
    arguments = (hub.url, str(path))
    count = 0
    for _ in range(6):
        with running("ship_in_batches", *arguments) as process:
            assert line_of(process) == "shipping"
            more = chance.randrange(20, 60)
            complete(client, range(count, count + more))
            complete(client, range(max(0, count - 5), count))  # Shipments may be completed twice.
            count += more
            kill_soon(process, chance.uniform(0.0, 0.3))
        check_shipments(path, held(client, "batch.closed"))

    complete(client, range(count, SHIPMENTS))
    with running("ship_in_batches", *arguments) as process:
        assert line_of(process) == "shipping"
        wanted = [(SHIPMENTS // SIZE * SIZE,)]
        until(lambda: rows(path, "SELECT count(*) FROM shipments") == [(SHIPMENTS,)])
        until(lambda: rows(path, "SELECT sum(dispatched) FROM shipments") == wanted)
        end(process)

    announced = held(client, "batch.closed")
    check_shipments(path, announced)
    assert len({event.metadata["eid"] for event in announced}) == SHIPMENTS // SIZE
    query = "SELECT dispatched, count(*) FROM shipments JOIN batches USING (batch) GROUP BY dispatched, size = ?"
    assert sorted(rows(path, query, SIZE)) == [(0, SHIPMENTS % SIZE), (1, wanted[0][0])]


def payments(path: Path) -> dict[str, str]:
    """Return by whom each order's payment was taken, which was once."""
    found = rows(path, "SELECT order_id, taken_by FROM payments")
    assert len(found) == len({order for order, _ in found})
    return dict(found)


def order(process: "subprocess.Popen[str]", *orders: str) -> None:
    assert process.stdin is not None
    process.stdin.writelines(f"{each}\n" for each in orders)
    process.stdin.flush()


def test_what_cannot_be_paid_at_once_is_paid_by_the_reaction(hub: LiveHub, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "bank.db"
    with running("charge_at_once", "shop", hub.url, str(path)) as shop:
        order(shop, "A1")
        assert line_of(shop) == "paid A1"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            order(shop, "A2")
            assert line_of(shop) == "accepted A2 (payment follows: database is locked)"
        assert payments(path) == {"A1": "request"}
        with running("charge_at_once", "guarantee", hub.url, str(path)) as guarantee:
            assert line_of(guarantee) == "caught up"
            end(guarantee)
    assert payments(path) == {"A1": "request", "A2": "reaction"}
    assert len(held(client, "order.placed")) == 2


def test_every_order_is_paid_once_whoever_is_killed(
    hub: LiveHub, client: Client, tmp_path: Path, chance: random.Random
) -> None:
    path = tmp_path / "bank.db"
    for turn in range(4):
        with (
            running("charge_at_once", "shop", hub.url, str(path)) as shop,
            running("charge_at_once", "guarantee", hub.url, str(path)) as guarantee,
        ):
            order(shop, *(f"{turn}-{number}" for number in range(2_000)))
            assert line_of(shop)
            for process in chance.sample([shop, guarantee], 2):
                kill_soon(process, chance.uniform(0.0, 0.4))
    with running("charge_at_once", "guarantee", hub.url, str(path)) as guarantee:
        assert line_of(guarantee) == "caught up"
        end(guarantee)

    placed = Counter(event.data["order_id"] for event in held(client, "order.placed"))
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
def test_an_example_ends_with_a_failure_when_one_of_its_processors_does(
    hub: LiveHub, client: Client, tmp_path: Path, words: list[str], event_type: str
) -> None:
    with running(*words, hub.url, str(tmp_path / "own.db"), tells=True) as process:
        assert line_of(process) in ("shipping", "caught up")
        client.delete_event_type(event_type)
        assert process.wait(PATIENCE_S) == 1
        assert process.stderr is not None
        assert f"EventTypeNotFound: there is no event type {event_type!r}" in process.stderr.read()
