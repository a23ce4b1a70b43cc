"""Runs a command in the test's own process: many are tried in the time that one process takes to begin."""

import sys
from collections.abc import Callable
from io import StringIO

import pytest

from penstock.cli import failures
from penstock.cli.main import app
from tests.cli.command import Result


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Return what runs `penstock` with arguments, and something that it is *given* on its standard input."""

    def run(*arguments: object, given: str = "") -> Result:
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", StringIO(given))
        capsys.readouterr()
        status: object = 0
        try:
            failures.run(app)
        except SystemExit as end:
            status = end.code or 0
        assert isinstance(status, int)
        shown = capsys.readouterr()
        return Result(status, shown.out, shown.err)

    return run
