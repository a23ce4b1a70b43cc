"""Asks before something is lost for ever."""

import sys

import typer

from penstock.cli.failures import CommandFailure


def confirm(question: str, *, done: str = "deleted", does: str = "deletes") -> None:
    """Go on only when somebody says yes. The question goes to stderr: stdout is left to results.

    *done* and *does* say what is asked about.

    Raises:
        Abort: somebody said no at a terminal.
        CommandFailure: nobody said yes, and it may be that nobody is there; says how to do without being asked.
    """
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return
    if sys.stdin.isatty():
        raise typer.Abort
    sys.stderr.write("\n")
    raise CommandFailure(f"nobody said yes, nothing was {done}", f"--yes {does} without asking.")
