"""`--help`, `--version` and nothing at all. That docs name every option is tested in tests/docs."""

import re
import resource
import subprocess
import sys
from collections.abc import Callable

import pytest

from penstock.cli.contents import CONTENTS, loaded
from tests.cli.command import PENSTOCK, Command


def test_help_names_all_commands(penstock: Command) -> None:
    shown = penstock("--help")

    assert shown.status == 0
    assert all(re.search(f"^  {command} ", shown.out, re.MULTILINE) for command in CONTENTS)


@pytest.mark.parametrize("command", CONTENTS)
def test_the_list_says_of_each_command_how_its_help_begins(command: str) -> None:
    assert loaded(command).help.startswith(CONTENTS[command].summary)


def test_help_costs_little_more_than_the_library_of_commands(penstock: Command) -> None:
    bare = [sys.executable, "-c", "import typer"]

    library = min(processor_seconds(lambda: subprocess.run(bare, check=True)) for _ in range(5))
    shown = min(
        processor_seconds(lambda: subprocess.run([*PENSTOCK, "--help"], check=True, stdout=subprocess.DEVNULL))
        for _ in range(5)
    )

    assert shown < 2 * library  # 0.12 s where Typer needs 0.10 s: both are as slow as the machine.


def processor_seconds(run: Callable[[], object]) -> float:
    """Return the processor time of the process that *run* starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_loads_nothing_heavy(penstock: Command) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "penstock", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)

    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in shown.stderr.splitlines()}
    assert "penstock" in loaded
    assert not loaded & {"starlette", "uvicorn", "pyarrow", "httpx2", "psycopg", "pyspark", "rich"}


def test_version_is_told(penstock: Command) -> None:
    assert penstock("version").out.startswith("penstock ")
    assert penstock("--version").out == penstock("version").out
    assert penstock("version", "-o", "json").json.keys() == {"penstock", "python", "sqlite"}


def test_no_command_shows_help(penstock: Command) -> None:
    shown = penstock()

    assert shown.status == 2
    assert "Usage" in shown.out + shown.err
