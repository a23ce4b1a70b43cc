"""Tells where a reset moves positions, and how much is read again or passed over by that."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.output import or_dash, plural, print_table

if TYPE_CHECKING:
    from penstock.client import ResetPosition


def summary(moved: "Sequence[ResetPosition]") -> str:
    """Return in words the number of moved positions, and the effect on events."""
    steps = [each.offset - each.came_from for each in moved if each.came_from is not None]
    back, forward = -sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)
    told = [plural(len(moved), "position")]
    told += [f"{plural(back, 'event')} again"] if back else []
    told += [f"{plural(forward, 'event')} passed over"] if forward else []
    return ", ".join(told)


def print_moved(moved: "Sequence[ResetPosition]") -> None:
    """Print a table of where positions are moved."""
    rows = [
        [each.event_type, each.slice or "-", each.partition, or_dash(each.came_from), each.offset, each.head, each.gap]
        for each in moved
    ]
    print_table(("event type", "slice", "partition", "from", "to", "end", "gap"), rows)
