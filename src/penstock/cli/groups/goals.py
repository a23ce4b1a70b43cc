"""The goals of `penstock groups reset`, for positions at the hub and in a database."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import typer

from penstock.cli.options import parse_start_option

SHOWN_MAX: Final = 5


class MovedPart(NamedTuple):
    """The partitions that are meant; None: all."""

    event_type: str | None
    partition: int | None
    tranches: Sequence[str] | None = None
    """In a database of the user's."""


class MoveOptions(NamedTuple):
    """How a group is moved."""

    reason: str | None
    dry_run: bool
    yes: bool
    output: str


def parse_offset(given: str, partition: int | None) -> dict[str, Any]:
    """Return a partition, and the offset or start that is *given* for it: `PARTITION=OFFSET`, or the offset alone.

    Raises:
        BadParameter: it is none of these.
    """
    number, equals, where = given.rpartition("=")
    try:
        if (not equals and partition is not None) or re.fullmatch(r"\d{1,9}", number, re.ASCII):
            meant = int(number) if equals else partition
            if re.fullmatch(r"\d{1,18}", where, re.ASCII):
                return {"partition": meant, "offset": int(where)}
            return {"partition": meant, "to": parse_start_option(where, "--offset")}
    except typer.BadParameter:
        pass
    allowed = "such as 0=1200, 0=earliest, 0=latest, 0=2026-11-20T10:00:00Z or 0=1h"
    raise typer.BadParameter(f"{given!r} is not PARTITION=OFFSET, {allowed}", param_hint="--offset")


def refuse_parked(like: str, streams: Sequence[str]) -> None:
    """Raise CommandFailure if a processor has parked *streams*: who begins where it is would never get their events."""
    from penstock.cli.event_line import bare
    from penstock.cli.failures import CommandFailure
    from penstock.cli.output import plural

    if not streams:
        return
    names = sorted(set(streams))
    shown = ", ".join(map(bare, names[:SHOWN_MAX])) + (" …" if names[SHOWN_MAX:] else "")
    hint = f"Who begins where {like} is would never be given their events, which are before: retry or skip them first."
    raise CommandFailure(f"{like} has parked {plural(len(names), 'stream')} there: {shown}", hint)
