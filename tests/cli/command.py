"""Runs the real command in a process of its own, as a shell would."""

import contextlib
import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PENSTOCK = [sys.executable, "-m", "penstock"]


@dataclass
class Result:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Command:
    """The command `penstock`, with an environment of its own."""

    directory: Path
    environment: dict[str, str]

    def __call__(self, *arguments: object, given: str | bytes = b"", **environment: str) -> Result:
        """Run it to its end."""
        done = subprocess.run(
            [*PENSTOCK, *map(str, arguments)],
            input=given.encode() if isinstance(given, str) else given,
            cwd=self.directory,
            env=self.environment | environment,
            capture_output=True,
            timeout=500,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextlib.contextmanager
    def started(
        self, *arguments: object, stdin: int = subprocess.DEVNULL, **environment: str
    ) -> "Iterator[subprocess.Popen[bytes]]":
        """Start it, with its output in pipes, and see to it that it is gone when the block has ended."""
        process = subprocess.Popen(
            [*PENSTOCK, *map(str, arguments)],
            cwd=self.directory,
            env=self.environment | environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    def on_a_terminal(self, *arguments: object, **environment: str) -> str:
        """Run it to its end with a terminal of 120 columns for its output; return what that was given."""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (40, 120))
        process = subprocess.Popen(
            [*PENSTOCK, *map(str, arguments)],
            cwd=self.directory,
            env=self.environment | {"TERM": "xterm"} | environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        shown = b""
        with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # Linux: EIO at the end.
            while more := terminal.read(65_536):
                shown += more
        assert process.wait(60) == 0, shown
        return shown.decode()


def clean_environment() -> dict[str, str]:
    """Return the environment without what would change what the command does."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
