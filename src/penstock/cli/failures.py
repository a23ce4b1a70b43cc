"""What a failure looks like on the command line: a line on stderr, mostly a second with advice, and an exit code."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Final, NoReturn

from penstock import errors
from penstock.errors import PenstockError

FAILED: Final = 1
MISUSED: Final = 2
"""As Typer calls what was asked for in a wrong way."""
INTERRUPTED: Final = 130
"""As a shell calls what Ctrl-C has ended."""
TERMINATED: Final = 143
"""As a shell calls what SIGTERM has ended."""

_HINTS: Final[dict[type[PenstockError], str]] = {
    errors.Unreachable: "Is the hub running? Start it with `penstock serve`, or name another one with --url.",
    errors.DatabaseUnavailable: "The hub is there, its database is not: run `penstock doctor` where the hub runs.",
}
"""For the commands that talk to a hub; what those say that open a database is in `penstock.cli.database`."""


class Failure(Exception):
    """Something outside of Penstock prevents the command. Says what, and what to do."""

    def __init__(self, detail: str, hint: str | None = None, *, status: int = FAILED) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.status = status


def run(command: Callable[[], object]) -> None:
    """Run *command*; end the process with a failure's code, mostly 1, and what went wrong where that is known."""
    try:
        command()
    except PenstockError as error:
        _refuse(error.detail, _hint(error))
    except Failure as failure:
        _refuse(failure.detail, failure.hint, failure.status)
    except ModuleNotFoundError as error:
        if "pip install" not in str(error):  # Ours say how to get what is missing.
            raise
        _refuse(str(error), None)


def unwind_on_sigterm() -> None:
    """Have SIGTERM raise SystemExit from here on, as Ctrl-C raises KeyboardInterrupt, so that the end can be told."""
    signal.signal(signal.SIGTERM, _unwind)


def leave_broken_pipe() -> NoReturn:
    """End the process because nobody reads its output any more, as `head` does once it has seen enough."""
    abandon_output()
    sys.exit(0)


def abandon_output() -> None:
    """Throw away what is still to be written to stdout: Python would complain when it flushes that at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unwind(number: int, _: object) -> NoReturn:
    signal.signal(number, lambda *_: None)  # `timeout` sends it twice; the second must not break into the telling.
    sys.exit(TERMINATED)


def _hint(error: PenstockError) -> str | None:
    hints = (_HINTS[kind] for kind in type(error).__mro__ if kind in _HINTS)
    return next(hints, None) or error.hint


def _refuse(detail: str, hint: str | None, status: int = FAILED) -> NoReturn:
    from penstock.cli.output import tell

    tell(f"penstock: {detail}", style="bold red")
    for line in (hint or "").splitlines():
        tell(f"  {line}")
    sys.exit(status)
