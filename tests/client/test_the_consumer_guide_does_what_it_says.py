"""Every program of docs/guides/consuming.md runs as it stands there, against a live hub."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import ROOT, Block, blocks, run_until_it_waits

PROGRAMS = [block for block in blocks(ROOT / "docs" / "guides" / "consuming.md") if block.language == "python"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub as the guide expects it."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", partition_count=4)
        client.publish("order.placed", ({"order_id": n, "total": "19.90"} for n in range(40)))
        yield hub


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"line {program.line}")
def test_a_program_of_the_guide_runs(
    program: Block, hub: LiveHub, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    text = program.text.replace("localhost:8080", f"127.0.0.1:{hub.port}")
    if "postgresql:///billing" in text:
        text = text.replace("postgresql:///billing", request.getfixturevalue("postgres_url"))

    run_until_it_waits(text, tmp_path)


def test_the_guide_has_programs() -> None:
    assert len(PROGRAMS) > 5
