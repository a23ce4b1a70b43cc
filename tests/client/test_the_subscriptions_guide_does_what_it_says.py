"""Every program of docs/guides/subscriptions.md runs as it stands there, against a live hub."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import ROOT, Block, blocks, run, run_until_it_waits

ALL = blocks(ROOT / "docs" / "guides" / "subscriptions.md")
PROGRAMS = [
    (program, printed.text)
    for program, printed in pairwise(ALL)
    if (program.language, printed.language) == ("python", "text")
]


@pytest.fixture
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub as the guide expects it."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed")
        client.publish("order.placed", [{"number": 1}, {"number": 2}])
        yield hub


def test_each_program_says_what_it_prints() -> None:
    assert [program for program, _ in PROGRAMS] == [block for block in ALL if block.language == "python"]


@pytest.mark.parametrize(("program", "printed"), PROGRAMS, ids=[f"line {each.line}" for each, _ in PROGRAMS])
def test_a_program_of_the_guide_prints_what_it_says(
    program: Block, printed: str, hub: LiveHub, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("guide")
    if "SIGTERM" in program.text:
        text = program.text.replace("localhost:8080", f"localhost:{hub.port}")
        assert run_until_it_waits(text, directory) == printed
    else:
        assert run(program, port=hub.port, directory=directory) == printed
