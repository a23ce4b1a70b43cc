"""A real hub on a free port, for tests of whatever talks to one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, Any, Protocol

from penstock.core.database_url import plain_url
from penstock.errors import BadParameter
from penstock.processing.parameters import check_kind, check_number, check_texts, check_whole, redact
from penstock.testing.port import free_port

__all__ = ["LiveHub", "live_hub"]

START_SECONDS_MAX = 120.0


class Process(Protocol):
    """The process of a hub: the part of `subprocess.Popen` that is used here."""

    pid: int
    stdin: IO[bytes] | None

    def poll(self) -> int | None:
        """Return the status if it has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the status."""


class LiveHub:
    """A hub in a process of its own, so that it can be killed. It listens on a free port of the loopback interface.

    It stops by itself when the process that started it is gone, however that has ended.
    """

    def __init__(
        self, database: str, *, port: int | None = None, log: Path | None = None, options: Sequence[str] = ()
    ) -> None:
        """*options* are further ones of `penstock serve`, such as `--nakadi-strict`.

        Raises:
            BadParameter: one of them is none of these.
        """
        check_database(database)
        if port is not None:
            check_whole("port", port)
            check_number("port", port, least=1, most=65_535, allowed="a port, or None: a free one")
        if log is not None:
            check_kind("log", log, Path, "a pathlib.Path of a file, or None")
        check_texts("options", options)
        self.database = database
        self.port = free_port() if port is None else port
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = log
        self._options = options
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        """The process's id; the hub must be running."""
        assert self._process is not None, "the hub is not running"
        return self._process.pid

    def start(self) -> None:
        """Start the hub and wait until it answers.

        Raises:
            RuntimeError: it ended, or did not answer in time; says what it printed.
        """
        words = ["serve", "--database", self.database, "--port", str(self.port), "--while-stdin", *self._options]
        with (self._log or Path(os.devnull)).open("ab") as output:
            self._process = self.start_penstock(words, output)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                said = self._log.read_text(encoding="utf-8")[-2000:] if self._log else "give it a log to see why"
                raise RuntimeError(f"the hub on {self.database} did not start: {said}")
            time.sleep(0.02)

    @staticmethod
    def start_penstock(arguments: Sequence[str], output: IO[bytes]) -> Process:
        """Start `penstock` with these arguments, which prints into *output* and has a pipe for its input."""
        program = [sys.executable, "-m", "penstock", *arguments]
        return subprocess.Popen(program, stdout=output, stderr=output, stdin=subprocess.PIPE)

    def stop(self) -> int:
        """Ask the hub to end, wait for it and return its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the hub as a power cut would, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Have the hub stand still, as a machine does that swaps or is moved."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Have it go on where it stood."""
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            os.kill(process.pid, number)
        status = process.wait(timeout=120)
        assert process.stdin is not None
        process.stdin.close()
        return status

    def _answers(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=1)
        try:
            connection.request("GET", "/health/live")
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def check_database(value: Any) -> None:
    """Raise BadParameter unless *value* is the URL of a database, as far as that can be told."""
    if not (isinstance(value, str) and plain_url(value).startswith(("sqlite:///", "postgresql://", "postgres://"))):
        allowed = "the URL of a database: sqlite:///FILE or postgresql://…"
        raise BadParameter(parameter="database", value=redact(value), allowed=allowed)


@contextmanager
def live_hub(
    database: str, *, port: int | None = None, log: Path | None = None, options: Sequence[str] = ()
) -> Iterator[LiveHub]:
    """Run a hub on *database* for as long as the block runs; it is killed then, which loses nothing.

    *options* are further ones of `penstock serve`.

    Raises:
        BadParameter: one of them is none of these.
        RuntimeError: it does not start.
    """
    hub = LiveHub(database, port=port, log=log, options=options)
    try:
        hub.start()
        yield hub
    finally:
        hub.kill()
