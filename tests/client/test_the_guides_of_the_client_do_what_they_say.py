"""Every program in the client's guides runs against a hub, and prints the documented output."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import ROOT, Block, blocks, run, run_until_it_waits

GUIDES = ROOT / "docs" / "guides"
CONSUMING = [block for block in blocks(GUIDES / "consuming.md") if block.language == "python"]
IDEMPOTENT = [block for block in blocks(GUIDES / "idempotent-publishing.md") if block.language == "python"]
IDEMPOTENT_PRINTS = ["2 events are stored, each once, from offset 0\n", "0 True\n1 10\n11\n", ""]
SUBSCRIBING = blocks(GUIDES / "subscriptions.md")
SUBSCRIBING_PRINTS = [
    (program, printed.text)
    for program, printed in pairwise(SUBSCRIBING)
    if (program.language, printed.language) == ("python", "text")
]


def line_of(value: Block | str) -> str:
    return f"line {value.line}" if isinstance(value, Block) else ""


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub with forty orders."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", partition_count=4)
        client.publish("order.placed", ({"order_id": n, "total": "19.90"} for n in range(40)))
        yield hub


@pytest.fixture(scope="module")
def no_orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub with an event type of orders."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", partition_count=4)
        yield hub


@pytest.fixture
def two_orders(tmp_path: Path) -> Iterator[LiveHub]:
    """A hub with two orders, which no other program has read."""
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed")
        client.publish("order.placed", [{"number": 1}, {"number": 2}])
        yield hub


@pytest.mark.parametrize("program", CONSUMING, ids=line_of)
def test_program_of_the_consuming_guide_runs(
    program: Block, orders: LiveHub, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    text = program.text.replace("localhost:8080", f"127.0.0.1:{orders.port}")
    if "postgresql:///billing" in text:
        text = text.replace("postgresql:///billing", request.getfixturevalue("postgres_url"))

    run_until_it_waits(text, tmp_path)


@pytest.mark.parametrize(("program", "printed"), [*zip(IDEMPOTENT, IDEMPOTENT_PRINTS, strict=True)], ids=line_of)
def test_program_of_the_idempotent_publishing_guide_prints_its_output(
    program: Block, printed: str, no_orders: LiveHub, tmp_path: Path
) -> None:
    assert run(program, port=no_orders.port, directory=tmp_path) == printed


@pytest.mark.parametrize(("program", "printed"), SUBSCRIBING_PRINTS, ids=line_of)
def test_program_of_the_subscriptions_guide_prints_its_output(
    program: Block, printed: str, two_orders: LiveHub, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("guide")
    if "hub.consume(billing" in program.text:
        text = program.text.replace("localhost:8080", f"localhost:{two_orders.port}")
        assert run_until_it_waits(text, directory) == printed
    else:
        assert run(program, port=two_orders.port, directory=directory) == printed


def test_guides_have_programs_with_their_output() -> None:
    assert len(CONSUMING) > 5
    assert [program for program, _ in SUBSCRIBING_PRINTS] == [each for each in SUBSCRIBING if each.language == "python"]
