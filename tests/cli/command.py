"""The command `penstock`: in this process where words and exit codes matter, in one of its own where a process does."""

import contextlib
import io
import json
import logging
import os
import pty
import signal
import sys
import termios
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final
from unittest import mock

from penstock.cli import failures
from penstock.cli.main import app
from penstock.cli.streams import Output
from tests.forks import FORKS, Fork

TIMEOUT: Final = 500
PENSTOCK = [sys.executable, "-m", "penstock"]
FORKED: Final = ("demo", "serve", "spark", "from-model")
"""Commands that change their process: by handlers of signals, logs, a JVM, or modules of the user."""


@dataclass
class Result:
    """The exit code and the output of a command."""

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
    """The command `penstock` with a current directory and an environment."""

    directory: Path
    environment: dict[str, str]

    def __call__(self, *arguments: object, stdin: str | bytes = b"", **environment: str) -> Result:
        """Run the command to its end: in this process, in a tenth of the time, if it leaves no traces there."""
        words = [*map(str, arguments)]
        run = self.fork if {*words[:2]} & {*FORKED} else self.run_here
        return run(*words, stdin=stdin, **environment)

    def run_here(self, *arguments: object, stdin: str | bytes = b"", **environment: str) -> Result:
        """Run the command to its end in this process."""
        words, variables = [*map(str, arguments)], self.environment | environment
        out, err = io.BytesIO(), io.BytesIO()
        with (
            _pipe(stdin) as pipe,
            io.TextIOWrapper(pipe, "utf-8") as text,
            contextlib.chdir(self.directory),
            mock.patch.dict(os.environ, variables, clear=True),
            mock.patch.multiple(
                sys,
                argv=["penstock", *words],
                stdin=text,
                stdout=Output(out, "utf-8", "replace"),
                stderr=io.TextIOWrapper(err, "utf-8", "backslashreplace", line_buffering=True),
            ),
            _as_in_a_new_process(),
        ):
            try:
                failures.run(app)
                status: Any = 0
            except SystemExit as end:
                status = end.code or 0
            sys.stderr.flush()
            return Result(status, out.getvalue().decode(), err.getvalue().decode())

    def fork(self, *arguments: object, stdin: str | bytes = b"", **environment: str) -> Result:
        """Run the command to its end in a process that is forked from one that has loaded all modules."""
        words, variables = [*map(str, arguments)], self.environment | environment
        with TemporaryFile() as out, TemporaryFile() as err, _pipe(stdin) as pipe:
            status = FORKS.run(words, self.directory, variables, [pipe, out, err], TIMEOUT)
            return Result(status, *(_text_of(file) for file in (out, err)))

    @contextlib.contextmanager
    def start(self, *arguments: object, has_input: bool = False, **environment: str) -> Iterator[Fork]:
        """Start the command in a process of its own, with its output in pipes; kill it when the block ends."""
        words, variables = [*map(str, arguments)], self.environment | environment
        process = FORKS.with_pipes(words, self.directory, variables, has_input=has_input)
        try:
            yield process
        finally:
            process.close()

    def run_on_terminal(self, *arguments: object, **environment: str) -> str:
        """Run the command to its end with its output on a terminal of 120 columns; return that output."""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (40, 120))
        variables = self.environment | {"TERM": "xterm"} | environment
        with _pipe(b"") as nothing, os.fdopen(theirs, "wb") as terminal:
            process = FORKS.start([*map(str, arguments)], self.directory, variables, [nothing, terminal, terminal])
        shown = b""
        with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # Linux: EIO at the end.
            while more := terminal.read(65_536):
                shown += more
        assert process.wait(300) == 0, shown
        return shown.decode()

    def at(self, url: str) -> "Command":
        """Return this command for the hub at *url*."""
        return replace(self, environment=self.environment | {"PENSTOCK_URL": url})


@contextlib.contextmanager
def _as_in_a_new_process() -> Iterator[None]:
    """Begin without handlers of logs, so that stderr gets warnings; restore them and those of signals in the end."""
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with (
        mock.patch.object(logging.getLogger(), "handlers", []),
        mock.patch.object(logging.getLogger("penstock.client"), "handlers", []),
    ):
        try:
            yield
        finally:
            for number, handler in signals.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def _pipe(content: str | bytes) -> Iterator[IO[bytes]]:
    """Yield a pipe that contains *content*."""
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as out, ThreadPoolExecutor(1) as threads:
        writing = threads.submit(_write, theirs, _bytes(content))
        yield out
        out.close()  # Ends the writing, if the command did not read all.
        writing.result()


def _write(pipe: int, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(pipe, "wb") as into:
        into.write(content)


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def clean_environment() -> dict[str, str]:
    """Return the environment without the variables that change what the command does."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}


def announced(serving: Fork) -> str:
    """Return the URL that a hub with a JSON log says it answers at."""
    for line in serving.stderr or ():
        said = json.loads(line)
        if said["event"] == "serving":
            return str(said["url"])
    raise AssertionError("it ended")
