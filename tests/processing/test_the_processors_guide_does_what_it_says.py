"""Every program of docs/guides/processors.md runs as it stands there, and does what the page says."""

import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from penstock.core.event import NewEvent
from penstock.processing import DatabaseCheckpoints
from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import ROOT, Block, blocks, run

GUIDE = ROOT / "docs" / "guides" / "processors.md"
CREATED = r"^penstock event-type create (\S+) --partition-key-field (\w+)$"
PROGRAMS = [block for block in blocks(GUIDE) if block.language == "python" and "penstock.spark" not in block.text]
"""tests/spark runs the others."""
CUSTOMERS = ("Ada", "Bob", "Cyd")
ORDERS = {name: [*range(start, 30, 3)] for start, name in enumerate(CUSTOMERS)}
TOTALS = {name: float(sum(numbers)) for name, numbers in ORDERS.items()}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    """A hub as the guide expects it."""
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, Client(hub.url) as client:
        for name, key in re.findall(CREATED, GUIDE.read_text(encoding="utf-8"), re.MULTILINE):
            client.create_event_type(name, partition_count=2, partition_strategy="hash", partition_key_fields=[key])
        client.publish("order.placed", [order(number) for number in range(30)])
        client.publish("parcel.moved", [moved(parcel, kind) for kind in KINDS for parcel in ("P1", "P2")])
        client.publish("product.changed", [priced(*each) for each in PRICES])
        yield hub


KINDS = ("parcel.packed", "parcel.sent", "parcel.delivered")
PRICES = [("cup", 1), ("cup", 3), ("jug", 1), ("cup", 2), ("jug", 2), ("cup", 3)]


def order(number: int) -> dict[str, Any]:
    return {"order_id": number, "customer": CUSTOMERS[number % 3], "total": float(number)}


def moved(parcel: str, kind: str) -> NewEvent:
    return NewEvent.of(json.dumps({"parcel": parcel, "customer": "Ada"}).encode(), headers={"ce_type": kind})


def priced(product: str, version: int) -> dict[str, Any]:
    return {"product": product, "version": version, "price": float(version)}


def program(text: str) -> Block:
    """Return the program of the guide that has *text*."""
    [found] = [each for each in PROGRAMS if text in each.text]
    return found


@pytest.fixture
def runs(hub: LiveHub, tmp_path: Path) -> Any:
    """Runs the program that has a text, and returns what it printed."""
    return lambda text: run(program(text), port=hub.port, directory=tmp_path)


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def test_the_first_processor_handles_all_orders_by_customer_and_goes_on_where_it_was(runs: Any) -> None:
    found: dict[str, list[int]] = {name: [] for name in CUSTOMERS}
    for name, numbers in re.findall(r"order\.placed-(\w+): \[(.*?)\]", runs("def greet(")):
        found[name] += map(int, numbers.split(", "))
    assert found == ORDERS
    assert runs("def greet(") == ""


def test_one_that_is_told_to_end_commits_what_is_done(hub: LiveHub, tmp_path: Path) -> None:
    text = program("def watch(").text.replace("localhost:8080", f"localhost:{hub.port}")
    command = [sys.executable, "-W", "error", "-c", text]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = ""  # Two threads may print into one line.
        while sum(map(int, re.findall(r": (\d+) orders", told))) < 30:
            line = process.stdout.readline()
            assert line, f"it has ended, and said {told}"
            told += line
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 0
    with Client(hub.url) as client:
        assert [(group.name, group.gap) for group in client.consumer_groups(kind="processor")] == [("watcher", 0)]


def test_a_stream_that_cannot_be_handled_is_parked_and_goes_on_when_that_is_mended(runs: Any, tmp_path: Path) -> None:
    printed = runs("def ship(")
    assert re.findall(r"(\d+) parcels to (Oslo|Voss|Bergen)", printed)[-1] == ("10", "Bergen")
    assert re.search(r"^parked: order\.placed-Bob, 10 events from \d+ on, KeyError: 'Bob'$", printed, re.MULTILINE)
    assert not DatabaseCheckpoints(f"sqlite:///{tmp_path}/shipping.db", "shipping").parked()


def test_what_is_added_up_in_the_checkpoints_transaction_is_added_once(runs: Any, tmp_path: Path) -> None:
    for _ in range(2):
        runs("def add(")
        found = rows(tmp_path / "shop.db", "SELECT * FROM turnover ORDER BY stream")
        assert found == [(f"order.placed-{name}", 10, TOTALS[name]) for name in CUSTOMERS]


def test_many_streams_are_written_at_once(runs: Any, tmp_path: Path) -> None:
    runs("def archive(")
    assert rows(tmp_path / "archive.db", "SELECT order_id FROM orders ORDER BY 1") == [(n,) for n in range(30)]


def test_a_projection_is_rebuilt_beside_the_one_that_is_shown(runs: Any, tmp_path: Path) -> None:
    runs('Projection("customers", Customer, placed)')
    found = rows(tmp_path / "shop.db", "SELECT * FROM customers ORDER BY key")
    assert found == [(name, 10, TOTALS[name]) for name in CUSTOMERS]
    runs("version=2)")
    found = rows(tmp_path / "shop.db", "SELECT * FROM customers ORDER BY key")
    assert found == [(name, 10, TOTALS[name], float(ORDERS[name][-1])) for name in CUSTOMERS]
    assert len(rows(tmp_path / "shop.db", "SELECT * FROM customers_v1")) == 3


def test_a_key_of_several_fields_has_a_column_for_each(runs: Any, tmp_path: Path) -> None:
    runs("class Price(NamedTuple)")
    found = rows(tmp_path / "shop.db", "SELECT customer, size, orders FROM sizes")
    sizes = Counter((name, "large" if n >= 15 else "small") for name, numbers in ORDERS.items() for n in numbers)
    assert sorted(found) == sorted((*key, count) for key, count in sizes.items())
    assert len(found) == 6


def test_an_event_driven_handler_does_what_each_kind_asks_for(runs: Any) -> None:
    printed = runs("def sent(")
    assert sorted(re.findall(r"tell Ada that (P\d) is on its way", printed)) == ["P1", "P2"]
    assert sorted(re.findall(r"(P\d) has come", printed)) == ["P1", "P2"]
    assert printed.endswith("2 ignored\n")


def test_a_shoulder_tap_says_what_the_state_is_now_and_waits_for_it(hub: LiveHub, runs: Any) -> None:
    runs('Projection("customers", Customer, placed)')
    publish_more(hub)
    said = while_the_projection_lags(hub, runs, "def summarise(", "summaries")
    for name in CUSTOMERS:
        assert re.findall(rf"{name} has (\d+) orders", said) == ["10", "12"]


def test_a_shoulder_tap_whose_state_is_ahead_drops_what_that_has_seen(hub: LiveHub, runs: Any, tmp_path: Path) -> None:
    runs('Projection("customers", Customer, placed)')
    tap = program("def summarise(")
    text = tap.text.replace("skip_to\n", "Rules, skip_to\n").replace("checkpoints=", "rules=RULES, checkpoints=")
    text = text.replace("HUB =", "RULES = Rules(events_per_call=1, attempts_max=1)\nHUB =")
    said = run(tap._replace(text=text), port=hub.port, directory=tmp_path)
    found = re.findall(r"(Ada|Bob|Cyd) has (\d+) orders", said)  # Two threads may print into one line.
    assert sorted(found) == [(name, "10") for name in CUSTOMERS]


def test_a_pre_flight_check_waits_for_the_read_model_also_where_another_version_is_in_use_then(
    hub: LiveHub, runs: Any
) -> None:
    runs('Projection("customers", Customer, placed)')
    publish_more(hub)
    said = while_the_projection_lags(hub, runs, "def reward(", "rewards", until="version=2)")
    found = {int(number): spent for number, spent in re.findall(r"order (\d+): \w+ has spent (\d+\.\d+)", said)}
    totals = [f"{sum(range(customer, 36, 3)):.2f}" for customer in range(3)]
    assert found == {number: totals[number % 3] for number in range(36)}


def publish_more(hub: LiveHub) -> None:
    with Client(hub.url) as client:
        client.publish("order.placed", [order(number) for number in range(30, 36)])


def while_the_projection_lags(
    hub: LiveHub, runs: Any, text: str, group: str, *, until: str = 'Projection("customers", Customer, placed)'
) -> str:
    """Return what a program prints that has begun before a program with the projection, *until*, catches up."""
    with ThreadPoolExecutor() as beside, Client(hub.url) as client:
        running = beside.submit(runs, text)
        deadline = time.monotonic() + 300
        while group not in [each.name for each in client.consumer_groups(kind="processor")]:
            assert time.monotonic() < deadline, "it has not begun"
            time.sleep(0.02)
        runs(until)
        printed: str = running.result()
    return printed


def test_an_ingest_writes_nothing_that_is_there(runs: Any, tmp_path: Path) -> None:
    runs("def ingest(")
    assert rows(tmp_path / "prices.db", "SELECT * FROM prices ORDER BY product") == [("cup", 3, 3.0), ("jug", 2, 2.0)]
    assert runs("def ingest(") == "0 prices changed\n"


def test_a_deferred_stream_comes_again_when_it_has_been_quiet(runs: Any) -> None:
    printed = runs("def thank(")
    assert sorted(re.findall(r"thank (\w+) for (\d+) orders", printed)) == [(name, "10") for name in CUSTOMERS]


def test_time_passes_inline_when_the_program_says_so(runs: Any) -> None:
    assert runs("Inline(open_account") == "opened\n"


def test_the_guide_has_a_program_for_each() -> None:
    said = (
        "greet(",
        "watch(",
        "ship(",
        "add(",
        "archive(",
        "sent(",
        "summarise(",
        "ingest(",
        "thank(",
        "reward(",
        "open_account(",
    )
    assert len(PROGRAMS) == len({program(f"def {name}").line for name in said}) + 3  # Three projections.
