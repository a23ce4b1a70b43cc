"""The programs of docs/cold-tier.md read the files of a hub as they stand on the page."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.events.event import NewEvent
from penstock.testing.clock import VirtualClock
from tests.docs.examples import ROOT, Block, blocks
from tests.promises.scene import create
from tests.sealing import seal, sealing_hub

PAGE = ROOT / "docs" / "cold-tier.md"
PROGRAMS = {block.text.split()[1].partition(".")[0]: block for block in blocks(PAGE) if block.language == "python"}
PEOPLE = ("Ada", "Bob", "Cyd")
ORDERS = 30
"""A third of them Ada's."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory beside which a hub has sealed orders of three people, each of one cent more than the one before."""
    directory = tmp_path_factory.mktemp("reading")
    clock = VirtualClock()
    with sealing_hub(f"sqlite:///{directory}/shop.db", (directory / "cold").as_uri(), clock=clock) as hub:
        create(hub, "order.placed", partitions=2)
        orders = [
            NewEvent.of(json.dumps({"cents": n}).encode(), partition=n % 2, key=PEOPLE[n % 3]) for n in range(ORDERS)
        ]
        last = [NewEvent.of(b'{"cents": 0}', partition=each, key="last") for each in range(2)]
        for each in (orders, last):
            hub.log.publish("order.placed", each)
        clock.advance(seconds=1)
        seal(hub)
    return directory


def run(block: Block, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", block.text], cwd=directory, check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"line {block.line}: {done.stderr}"
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("library", "printed"),
    [
        ("pyarrow", '10 {"cents": 0}'),
        ("duckdb", "[('Ada', 10, 135), ('Bob', 10, 145), ('Cyd', 10, 155)]"),
        ("pandas", "{'Ada': 10, 'Bob': 10, 'Cyd': 10}"),
        ("pyspark", "10"),
    ],
)
def test_program_of_the_page_reads_what_was_sealed(directory: Path, library: str, printed: str) -> None:
    assert run(PROGRAMS[library], directory) == printed


def test_page_has_no_other_program() -> None:
    assert sorted(PROGRAMS) == ["duckdb", "pandas", "pyarrow", "pyspark"]


def test_command_at_the_top_is_sql_that_runs(directory: Path) -> None:
    [first] = [block for block in blocks(PAGE) if block.language == "sh"]
    sql = first.text.split('"')[1]

    found = run(Block(first.line, "python", f"import duckdb; print(duckdb.sql({sql!r}).fetchall())"), directory)

    assert found == "[(None, 30)]"
