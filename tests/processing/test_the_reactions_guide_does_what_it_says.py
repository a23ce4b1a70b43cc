"""Every program of docs/guides/reactions.md runs as it stands there, and does what the page says."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.testing.factories import a_business_event
from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import ROOT, blocks, run

PROGRAMS = [block for block in blocks(ROOT / "docs" / "guides" / "reactions.md") if block.language == "python"]
ORDERS = 50


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    """A hub as the guide expects it."""
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, Client(hub.url) as client:
        for name, category in (
            ("order.placed", "business"),
            ("invoice.sent", "business"),
            ("order.copied", "undefined"),
        ):
            client.create_event_type(name, category=category, partition_count=2)
        client.publish("order.placed", [a_business_event(number, order_id=number) for number in range(ORDERS)])
        yield hub


def orders(hub: LiveHub, name: str) -> Counter[int]:
    with Client(hub.url) as client, client.feed(name) as feed:
        return Counter(event.data["order_id"] for event in feed.read(feed.cursors(), page_size_hint=1000).events)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"line {program.line}")
def test_a_program_of_the_guide_does_what_it_says(hub: LiveHub, program: object, tmp_path: Path) -> None:
    printed = [run(program, port=hub.port, directory=tmp_path) for _ in range(2)]  # type: ignore[arg-type]
    assert len(set(printed)) == 1
    match printed[0]:
        case "all orders have their invoice\n":
            assert orders(hub, "invoice.sent") == Counter(range(ORDERS))
        case "one invoice for five orders\n":
            with Client(hub.url) as client, client.feed("invoice.sent") as feed:
                sent = [event.data["orders"] for event in feed.read(feed.cursors(), page_size_hint=1000).events]
            assert {len(each) for each in sent} == {5}
            assert len(sent) >= ORDERS // 5 - 1, "four orders wait in each of two streams at most"
            assert max(Counter(order for each in sent for order in each).values()) == 1
        case "copied\n":
            assert orders(hub, "order.copied") == Counter(range(ORDERS))
        case _:
            assert printed[0] == "counted\n"
            with closing(sqlite3.connect(tmp_path / "totals.db")) as connection:
                found = connection.execute("SELECT sum(orders) FROM totals").fetchall()
            assert found == [(2 * ORDERS,)], "it keeps no checkpoint"


def test_the_guide_has_a_program_for_each() -> None:
    assert len(PROGRAMS) == 4
