"""Every program of docs/guides/idempotent-publishing.md runs as it stands there, against a live hub."""

from collections.abc import Iterator

import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import ROOT, Block, blocks, run

PROGRAMS = [
    block for block in blocks(ROOT / "docs" / "guides" / "idempotent-publishing.md") if block.language == "python"
]
PRINTED = [
    "2 events are stored, each once, from offset 0\n",
    "0 True\n1 10\n11\n",
    "",
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub as the guide expects it."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", partition_count=4)
        yield hub


@pytest.mark.parametrize(
    ("program", "printed"),
    list(zip(PROGRAMS, PRINTED, strict=True)),
    ids=[f"line {program.line}" for program in PROGRAMS],
)
def test_a_program_of_the_guide_prints_what_it_says(
    program: Block, printed: str, hub: LiveHub, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert run(program, port=hub.port, directory=tmp_path_factory.mktemp("guide")) == printed
