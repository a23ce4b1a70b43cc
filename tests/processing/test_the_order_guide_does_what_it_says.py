"""Every program of docs/guides/duplicates-and-order.md runs as it stands there, and does what the page says."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from penstock.client import Client
from penstock.testing.factories import a_business_event, a_data_event
from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import ROOT, blocks, run_until_it_waits

PROGRAMS = [
    block for block in blocks(ROOT / "docs" / "guides" / "duplicates-and-order.md") if block.language == "python"
]
PRODUCT = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "version": {"type": "integer"}, "name": {"type": "string"}},
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub as the guide expects it, with repeats, and with events out of order."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", category="business", partition_count=2)
        orders = [a_business_event(number, total="19.90") for number in range(20)]
        client.publish("order.placed", orders + orders[::-2])
        order = {"ordering_key_fields": ["data.version"], "ordering_instance_ids": ["data.id"]}
        client.create_event_type("product.changed", category="data", schema=PRODUCT, **order)
        client.publish("product.changed", [product(*each) for each in CHANGES])
        client.create_event_type("parcel.moved", category="business")
        client.publish("parcel.moved", [moved(*each) for each in (("Oslo", 3, 2), ("Bergen", 1), ("Voss", 2, 1))])
        yield hub


CHANGES = [(1, 10, "U"), (1, 9, "C"), (2, 5, "D"), (2, 4, "U"), (2, 3, "C"), (3, 1, "S"), (1, 10, "U")]


def product(entity: int, version: int, data_op: str) -> dict[str, object]:
    eid = str(UUID(int=100 * entity + version))
    change = a_data_event(data_op=data_op, metadata={"eid": eid})
    return change | {"data": {"id": entity, "version": version, "name": f"name {version}"}}


def moved(place: str, number: int, *parents: int) -> dict[str, object]:
    named = [str(UUID(int=parent)) for parent in parents]
    return a_business_event(number, parcel="P1", place=place, metadata={"parent_eids": named})


def result(name: str, query: str, directory: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(directory / name)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(params=PROGRAMS, ids=lambda program: f"line {program.line}")
def printed(request: pytest.FixtureRequest, hub: LiveHub, tmp_path: Path) -> str:
    """What a program prints; what it leaves lies in *tmp_path*."""
    return run_until_it_waits(request.param.text.replace("localhost:8080", f"127.0.0.1:{hub.port}"), tmp_path)


def test_a_program_of_the_guide_does_what_it_says(printed: str, tmp_path: Path) -> None:
    [name] = [path.name for path in tmp_path.glob("*.db")] or ["none"]
    if name == "billing.db":
        assert result(name, "SELECT order_id FROM invoices ORDER BY order_id", tmp_path) == [(n,) for n in range(20)]
    elif name == "search.db":
        assert result(name, "SELECT * FROM products", tmp_path) == [(1, "name 10"), (3, "name 1")]
    elif name == "prices.db":
        rows = result(name, "SELECT id, version, gone FROM prices", tmp_path)
        assert rows == [(1, 10, 0), (2, 5, 1), (3, 1, 0)]
    elif name == "tracking.db":
        assert result(name, "SELECT place FROM moves", tmp_path) == [("Bergen",), ("Voss",), ("Oslo",)]
    else:
        lines = ["1 ['C', 'U']", "2 ['C', 'U', 'D']", "3 ['S']", "P1 ['Bergen', 'Voss', 'Oslo']"]
        assert printed.splitlines() == lines


def test_the_guide_has_a_program_for_each() -> None:
    texts = "".join(program.text for program in PROGRAMS)
    assert all(word in texts for word in ("Duplicates(", "Latest(", "Known(", "in_order(", "by_parents(", "HeldBack("))
