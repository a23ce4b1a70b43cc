"""Asks for confirmation before data is lost permanently."""

import sys

import typer

from penstock.cli.failures import CommandFailure


def confirm(question: str, *, done: str = "deleted", does: str = "deletes") -> None:
    """Return if the user answers yes. The question goes to stderr: stdout is for results.

    *done* and *does* are the verb of the action, for messages.

    Raises:
        Abort: the user answered no at a terminal.
        CommandFailure: there was no yes, and stdin is no terminal; the hint names the option that skips the question.
    """
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return
    if sys.stdin.isatty():
        raise typer.Abort
    sys.stderr.write("\n")
    raise CommandFailure(f"nobody said yes, nothing was {done}", f"--yes {does} without asking.")
