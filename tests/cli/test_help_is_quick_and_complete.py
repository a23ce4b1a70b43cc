"""`--help`, `--version` and nothing at all. That docs name every option is tested in tests/docs."""

import time

import pytest

from tests.cli.command import Command

COMMANDS = ["serve", "migrate", "restored", "doctor", "publish", "tail", "demo", "version", "event-type"]


def test_help_names_all_commands(penstock: Command) -> None:
    shown = penstock("--help")

    assert shown.status == 0
    assert all(command in shown.out for command in COMMANDS)


def test_help_answers_at_once(penstock: Command, pytestconfig: pytest.Config) -> None:
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        penstock("--help")
        seconds.append(time.perf_counter() - started)

    if reporter := pytestconfig.pluginmanager.get_plugin("terminalreporter"):
        reporter.write_line(f"\npenstock --help: {min(seconds):.2f} s")
    assert min(seconds) < 3.0  # 0.3 s on an idle machine; this one may be busy with other tests.


def test_version_is_told(penstock: Command) -> None:
    assert penstock("version").out.startswith("penstock ")
    assert penstock("--version").out == penstock("version").out
    assert penstock("version", "-o", "json").json.keys() == {"penstock", "python", "sqlite"}


def test_no_command_shows_help(penstock: Command) -> None:
    shown = penstock()

    assert shown.status == 2
    assert "Usage" in shown.out + shown.err
