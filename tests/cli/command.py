"""Runs the real command in a process of its own."""

import contextlib
import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final

from tests.forks import FORKS

TIMEOUT_S: Final = 500
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
        words, told = [*map(str, arguments)], self.environment | environment
        if _of_python(told) != _of_python(os.environ):
            return self.from_scratch(*arguments, given=given, **environment)
        with TemporaryFile() as out, TemporaryFile() as err, _pipe(given) as stdin:
            status = FORKS.run(words, self.directory, told, [stdin, out, err], TIMEOUT_S)
            return Result(status, *(_written(file) for file in (out, err)))

    def from_scratch(self, *arguments: object, given: str | bytes = b"", **environment: str) -> Result:
        """Run it to its end from its real beginning, as a shell would: that takes several times as long."""
        done = subprocess.run(
            [*PENSTOCK, *map(str, arguments)],
            input=_bytes(given),
            cwd=self.directory,
            env=self.environment | environment,
            capture_output=True,
            timeout=TIMEOUT_S,
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
        assert process.wait(300) == 0, shown
        return shown.decode()


@contextlib.contextmanager
def _pipe(given: str | bytes) -> Iterator[IO[bytes]]:
    """Yield a pipe out of which what is given comes."""
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as out, ThreadPoolExecutor(1) as threads:
        writing = threads.submit(_write, theirs, _bytes(given))
        yield out
        out.close()
        writing.result()


def _write(pipe: int, given: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(pipe, "wb") as into:
        into.write(given)


def _bytes(given: str | bytes) -> bytes:
    return given.encode() if isinstance(given, str) else given


def _written(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


def clean_environment() -> dict[str, str]:
    """Return the environment without what would change what the command does."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
