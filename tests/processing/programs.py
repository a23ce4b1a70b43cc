"""Python programs in forked processes: a test reads their output line by line, ends them, or kills them."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from tests.forks import FORKS, Fork

ROOT: Final = Path(__file__).parents[2]
LIMIT_SECONDS: Final = 300.0


class Program:
    """A running Python program.

    Args:
        fork: Its process, with pipes.
        errors: What it writes to stderr.
    """

    def __init__(self, fork: Fork, errors: Any) -> None:
        assert fork.stdin is not None
        assert fork.stdout is not None
        self.fork = fork
        self._stdin, self._stdout, self._errors = fork.stdin, fork.stdout, errors

    def line(self) -> str:
        """Return the next line that it prints; empty at the end of its output."""
        return self._stdout.readline().decode().rstrip("\n")

    def tell(self, *lines: str) -> None:
        """Write lines to its input."""
        self._stdin.write("".join(f"{line}\n" for line in lines).encode())
        self._stdin.flush()

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        assert self.fork.poll() is None, f"it has ended by itself: {self.errors()}"
        self.fork.kill()
        self.fork.wait(LIMIT_SECONDS)

    def rest(self) -> list[str]:
        """Return the whole lines that are left of its output."""
        return self._stdout.read().decode().rpartition("\n")[0].splitlines()

    def terminate(self) -> str:
        """Send SIGTERM; return what it prints until it ends, which it has to do with status 0."""
        os.kill(self.fork.pid, signal.SIGTERM)
        return self.end()

    def end(self, status: int = 0) -> str:
        """Close its input; return what it prints until it ends with *status*."""
        self._stdin.close()
        printed = self._stdout.read().decode()
        assert self.fork.wait(LIMIT_SECONDS) == status, self.errors()
        return printed

    def errors(self) -> str:
        """Return what it has written to stderr."""
        self._errors.seek(0)
        found: str = self._errors.read().decode()
        return found

    def close(self) -> None:
        """Kill it if it still runs, and close its pipes."""
        self.fork.kill()
        self.fork.wait(LIMIT_SECONDS)
        self._stdin.close()
        self._stdout.close()


@contextmanager
def running(*arguments: str, directory: Path = ROOT) -> Iterator[Program]:
    """Run `python -W error` with `-c TEXT`, `-m MODULE` or a file, and arguments, for as long as the block runs."""
    with TemporaryFile() as errors:
        program = Program(FORKS.python(arguments, directory, errors), errors)
        try:
            yield program
        finally:
            program.close()


def output(text: str, directory: Path) -> str:
    """Run the program *text* to its end with status 0, and return what it printed."""
    with running("-c", text, directory=directory) as program:
        return program.end()
