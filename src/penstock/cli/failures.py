"""Failures on the command line: a line on stderr, usually a second with advice, and an exit code."""

import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn

from penstock import errors
from penstock.cli.hub import describe_credential
from penstock.cli.streams import OutputClosed, OutputFailed
from penstock.errors import PenstockError

FAILED: Final = 1
MISUSED: Final = 2
"""As Typer calls what was asked for in a wrong way."""
INTERRUPTED: Final = 130
"""As a shell calls what Ctrl-C has ended."""
TERMINATED: Final = 143
"""As a shell calls what SIGTERM has ended."""

SHOWN_MAX: Final = 100
"""Maximum number of characters of an invalid text that are shown."""

_OFFSETS: Final = "`penstock event-type show NAME` has the offsets that there are; BEGIN is before the first."
_HINTS: Final[dict[str, str]] = {
    errors.Unreachable.code: "Is the hub running? Start it with `penstock serve`, or name another one with --url.",
    "proxy-unreachable": "Correct or unset {variable}, or name the hub's host in NO_PROXY to ask it directly.",
    errors.Unauthenticated.code: (
        "Name a file with a token by --token-file, or set PENSTOCK_TOKEN. `penstock token create` makes one, where the "
        "hub's database is."
    ),
    errors.DatabaseUnavailable.code: "The hub is there, its database is not: run `penstock doctor` where the hub runs.",
    errors.EventTypeNotFound.code: "`penstock event-type list` has all; `penstock event-type create NAME` makes one.",
    "unusable-cursor": _OFFSETS,
    "unusable-start": _OFFSETS,
    errors.SubscriptionNotFound.code: "`penstock subscription list` has all.",
    errors.ParkedNotFound.code: "`penstock groups parked list {subscription}` has those that there are.",
    "parked-of-group-not-found": "`penstock groups parked list {group}` has those that there are.",
    "token-not-found": "`penstock token list` has all.",
    "rejected-row-not-found": "`penstock rejected list` has those that there are.",
    errors.GroupNotFound.code: "`penstock groups` has all; a group is made with the first position that it commits.",
}
"""By code, for the commands that talk to a hub, in the place of routes; fields of the error stand in braces.

What those say that open a database is in `penstock.cli.database`.
"""

_REFUSED_HINT: Final = (
    "It may have expired, or been revoked: the hub's log says why. Where the hub's database is, `penstock token list` "
    "shows its tokens, and `penstock token create` makes one."
)


class CommandFailure(Exception):
    """A condition outside of Penstock prevents the command. The message has the cause, the hint a remedy."""

    def __init__(self, detail: str, hint: str | None = None, *, status: int = FAILED) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.status = status


def run(command: Callable[[], object]) -> None:
    """Run *command*; on failure print the error, and end the process with its exit code, usually 1."""
    with _show_warnings():
        try:
            _run(command)
        finally:
            _run(_write_out)


@contextmanager
def _show_warnings() -> Iterator[None]:
    """Show a warning of the client about its token as a line, while the block runs."""
    with warnings.catch_warnings():
        module, show = "penstock.client.credentials", warnings.showwarning

        def show_line(*given: Any, **options: Any) -> None:
            warning, category, *_ = given
            if category.__module__ != module:
                show(*given, **options)
                return
            from penstock.cli.output import tell

            tell(f"penstock: warning: {warning}", style="yellow")

        warnings.filterwarnings("default", module=re.escape(module))
        warnings.showwarning = show_line
        yield


def _run(command: Callable[[], object]) -> None:
    try:
        command()
    except OutputClosed:
        sys.exit()
    except OutputFailed as error:
        _refuse(str(error), None)
    except PenstockError as error:
        _refuse(*explain_error(error))
    except CommandFailure as failure:
        _refuse(failure.detail, failure.hint, failure.status)
    except UnicodeEncodeError as error:
        if error.encoding != "utf-8":
            raise
        given = error.object[: error.end][-SHOWN_MAX:]
        _refuse(f"{given!r} is not UTF-8", "Give it in UTF-8: that is how arguments are sent and stored.", MISUSED)
    except ModuleNotFoundError as error:
        if "pip install" not in str(error):  # Ours say how to get what is missing.
            raise
        _refuse(str(error), None)


def _write_out() -> None:
    """Flush stdout. A closed stdout does not change the status of a command that has failed."""
    with suppress(OutputClosed):
        sys.stdout.flush()


def explain_error(error: PenstockError) -> tuple[str, str | None]:
    """Return the message and the remedy for an error, in the words of the command line."""
    hint = _find_text(_HINTS, error)
    if isinstance(error, errors.Unauthenticated) and (credential := describe_credential()) is not None:
        return f"the hub refused {credential}", _REFUSED_HINT
    if isinstance(error, errors.Unreachable) and error.code == errors.Unreachable.code:
        hint = hint if error.hint == errors.Unreachable.hint else None
    return error.detail, hint or error.hint


def unwind_on_sigterm() -> None:
    """Have SIGTERM raise SystemExit from here on, as Ctrl-C raises KeyboardInterrupt, so that the end can be told."""
    signal.signal(signal.SIGTERM, _unwind)


def _unwind(number: int, _: object) -> NoReturn:
    signal.signal(number, lambda *_: None)  # `timeout` sends it twice; the second must not break into the telling.
    sys.exit(TERMINATED)


def _find_text(texts: Mapping[str, str], error: PenstockError) -> str | None:
    """Return the text for the error's code; None if there is none, or the error lacks a field of it."""
    text = texts.get(error.code)
    try:
        return text and text.format_map(error.fields)
    except KeyError:
        return None


def _refuse(detail: str, hint: str | None, status: int = FAILED) -> NoReturn:
    from penstock.cli.output import tell

    tell(f"penstock: {detail}", style="bold red")
    for line in (hint or "").splitlines():
        tell(f"  {line}")
    sys.exit(status)
