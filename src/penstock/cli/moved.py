"""Tells where a reset moves positions, and how much is read again or passed over by that."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import counted, or_dash, print_table

if TYPE_CHECKING:
    from penstock.client import ResetPosition


def goal(to: str | None) -> dict[str, Any]:
    """Return as arguments of a reset where *to* leads: begin, end, or a time; nowhere, where it is None.

    Raises:
        BadParameter: it is none of these.

    >>> goal("END"), goal("2026-11-20T10:00:00Z")
    ({'to': 'end'}, {'at': '2026-11-20T10:00:00Z'})
    """
    import msgspec

    if to is not None and to.lower() in ("begin", "end"):
        return {"to": to.lower()}
    if to is not None:
        try:
            msgspec.convert(to, Annotated[datetime, msgspec.Meta(tz=True)])
        except msgspec.ValidationError:
            detail = f"{to!r} is neither begin, nor end, nor a time with a zone, such as 2026-11-20T10:00:00Z"
            raise typer.BadParameter(detail, param_hint="--to") from None
    return {"at": to}


def summary(moved: "Sequence[ResetPosition]") -> str:
    """Return in words how many positions are moved, and what that means."""
    steps = [each.offset - each.came_from for each in moved if each.came_from is not None]
    back, forward = -sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)
    told = [counted(len(moved), "position")]
    told += [f"{counted(back, 'event')} again"] if back else []
    told += [f"{counted(forward, 'event')} passed over"] if forward else []
    return ", ".join(told)


def print_moved(moved: "Sequence[ResetPosition]") -> None:
    """Print a table of where positions are moved."""
    rows = [
        [each.event_type, each.slice or "-", each.partition, or_dash(each.came_from), each.offset, each.head, each.gap]
        for each in moved
    ]
    print_table(("event type", "slice", "partition", "from", "to", "end", "gap"), rows)
