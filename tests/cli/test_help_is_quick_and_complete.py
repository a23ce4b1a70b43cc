"""`--help` everywhere, and docs that name every command and option."""

import re
import time
from pathlib import Path

import pytest

from tests.cli.command import Command

DOCS = Path(__file__).parent.parent.parent / "docs" / "cli.md"
COMMANDS = [
    ("serve",),
    ("migrate",),
    ("doctor",),
    ("publish",),
    ("tail",),
    ("demo",),
    ("version",),
    ("event-type",),
    ("event-type", "create"),
    ("event-type", "list"),
    ("event-type", "show"),
    ("event-type", "delete"),
]


def test_help_names_all_commands(penstock: Command) -> None:
    shown = penstock("--help")

    assert shown.status == 0
    assert all(command[0] in shown.out for command in COMMANDS)


def test_help_answers_at_once(penstock: Command, pytestconfig: pytest.Config) -> None:
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        penstock("--help")
        seconds.append(time.perf_counter() - started)

    if reporter := pytestconfig.pluginmanager.get_plugin("terminalreporter"):
        reporter.write_line(f"\npenstock --help: {min(seconds):.2f} s")
    assert min(seconds) < 3.0  # 0.3 s on an idle machine; this one may be busy with other tests.


@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
def test_docs_name_every_option(penstock: Command, command: tuple[str, ...]) -> None:
    text = DOCS.read_text()
    shown = penstock(*command, "--help", COLUMNS="300", TERMINAL_WIDTH="300").out

    assert f"penstock {' '.join(command)}" in text
    for option in set(re.findall(r"--[a-z][a-z-]+", shown)) - {"--help"}:
        assert option in text, f"{option} of {' '.join(command)} is not in docs/cli.md"


def test_version_is_told(penstock: Command) -> None:
    assert penstock("version").out.startswith("penstock ")
    assert penstock("--version").out == penstock("version").out
    assert penstock("version", "-o", "json").json.keys() == {"penstock", "python", "sqlite"}


def test_no_command_shows_help(penstock: Command) -> None:
    shown = penstock()

    assert shown.status == 2
    assert "Usage" in shown.out + shown.err
