"""`--help`, `--version` and no argument at all. That docs name every option is tested in tests/docs."""

import re
import subprocess
import sys

import pytest

from penstock.cli.contents import CONTENTS, load_command
from tests.cli.command import Command


def test_help_names_all_commands(penstock: Command) -> None:
    shown = penstock("--help")

    assert shown.status == 0
    assert all(re.search(f"^  {command} ", shown.out, re.MULTILINE) for command in CONTENTS)


@pytest.mark.parametrize("command", CONTENTS)
def test_listed_summary_is_the_beginning_of_the_help_of_the_command(command: str) -> None:
    assert load_command(command).help.startswith(CONTENTS[command].summary)


@pytest.mark.parametrize("group", ["", "event-type", "subscription", "spark"])
def test_help_imports_no_heavy_library(group: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "penstock", *group.split(), "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)

    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in shown.stderr.splitlines()}
    assert "penstock" in imported
    assert not imported & {"starlette", "uvicorn", "pyarrow", "httpx2", "psycopg", "pyspark", "rich", "yaml"}


def test_version_is_printed_and_no_command_prints_usage(penstock: Command) -> None:
    nothing = penstock()

    assert penstock("version").out.startswith("penstock ")
    assert penstock("--version").out == penstock("version").out
    assert penstock("version", "-o", "json").json.keys() == {"penstock", "python", "sqlite"}
    assert (nothing.status, "Usage" in nothing.out + nothing.err) == (2, True)


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("publish", "publish [OPTIONS] {EVENT_TYPE} [FILE]"),
        ("event-type create", "event-type create [OPTIONS] [NAME]"),
        ("rejected list", "rejected list [OPTIONS] [ID]..."),
        ("rejected retry", "rejected retry [OPTIONS] [ID]..."),
    ],
)
def test_usage_has_one_pair_of_brackets_around_an_optional_argument(
    penstock: Command, command: str, usage: str
) -> None:
    shown = penstock(*command.split(), "--help", COLUMNS="200").out

    assert shown.splitlines()[0].endswith(f" penstock {usage}")
