"""`--help`, `--version` and nothing at all. That docs name every option is tested in tests/docs."""

import resource
from collections.abc import Callable

import pytest

from tests.cli.command import Command

COMMANDS = [
    "serve",
    "migrate",
    "restored",
    "doctor",
    "rejected",
    "event-type",
    "subscription",
    "groups",
    "checkpoint",
    "publish",
    "tail",
    "spark",
    "new",
    "demo",
    "version",
]


def test_help_names_all_commands(penstock: Command) -> None:
    shown = penstock("--help")

    assert shown.status == 0
    assert all(command in shown.out for command in COMMANDS)


def test_help_answers_at_once(penstock: Command, pytestconfig: pytest.Config) -> None:
    seconds = min(processor_seconds(lambda: penstock("--help")) for _ in range(5))

    if reporter := pytestconfig.pluginmanager.get_plugin("terminalreporter"):
        reporter.write_line(f"\npenstock --help: {seconds:.2f} s")
    assert seconds < 0.3  # The waiting for a processor that something else uses is not counted.


def processor_seconds(run: Callable[[], object]) -> float:
    """Return the processor time of the process that *run* starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_loads_nothing_heavy(penstock: Command) -> None:
    shown = penstock("--help", PYTHONPROFILEIMPORTTIME="1")

    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in shown.err.splitlines()}
    assert "penstock" in loaded
    assert not loaded & {"starlette", "uvicorn", "pyarrow", "httpx2", "psycopg", "pyspark"}


def test_version_is_told(penstock: Command) -> None:
    assert penstock("version").out.startswith("penstock ")
    assert penstock("--version").out == penstock("version").out
    assert penstock("version", "-o", "json").json.keys() == {"penstock", "python", "sqlite"}


def test_no_command_shows_help(penstock: Command) -> None:
    shown = penstock()

    assert shown.status == 2
    assert "Usage" in shown.out + shown.err
