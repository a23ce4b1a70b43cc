"""Positions as they are committed and reset: what somebody asks for, and which partitions that means."""

import re
from collections.abc import Collection
from typing import Final, Literal, NamedTuple

from penstock.core.consumer_group import CURSOR_SET
from penstock.core.cursor import View, check_view
from penstock.errors import BadPartitionCount

_SLICE: Final = re.compile(r"(0|[1-9]\d{0,4})/(0|[1-9]\d{0,4})", re.ASCII)


class Commit(NamedTuple):
    """A position that somebody wants to have stored."""

    event_type: str
    partition: int
    offset: int
    """The one that is wanted next."""
    slice: str = ""
    epoch: int | None = None
    """Of the feed, as it was read; None: whichever it has."""
    compares: bool = False
    """Whether it is stored only where *expected* stands there."""
    expected: int | None = None
    """None: nothing."""


class Goal(NamedTuple):
    """Where partitions are to be reset to: one of the three."""

    to: Literal["begin", "end"] | None = None
    offset: int | None = None
    at: int | None = None
    """The first event received then or later; in microseconds since 1970, UTC."""


class Reset(NamedTuple):
    """What somebody wants to have moved; None each time: all."""

    goal: Goal
    event_type: str | None = None
    partition: int | None = None
    slice: str | None = None


def slice_of(view: View) -> str:
    """Return the slice under which a view's positions are kept.

    >>> slice_of(View(2, 1, 4))
    '2/1'
    """
    return f"{view.n}/{view.partition}"


def view_of(slice: str, count: int) -> View | None:
    """Return the view of a feed with *count* partitions that a slice is of; None: it is of none.

    >>> view_of("2/1", 4), view_of("3/1", 4), view_of("", 4)
    (View(n=2, partition=1, count=4), None, None)
    """
    match = _SLICE.fullmatch(slice)
    if match is None or int(match[2]) >= int(match[1]):
        return None
    try:
        check_view(int(match[1]), count)
    except BadPartitionCount:
        return None
    return View(int(match[1]), int(match[2]), count)


def covered(kind: str, slice: str, count: int, known: Collection[int]) -> set[int]:
    """Return which of a feed's *count* partitions a slice covers, by the group's kind and where it is *known* to stand.

    >>> sorted(covered("cursorset", "2/1", 4, [1])), sorted(covered("processor", "", 2, []))
    ([1, 3], [0, 1])
    >>> sorted(covered("processor", "worker 7", 4, [3, 9]))
    [3]
    """
    if kind == CURSOR_SET:
        view = view_of(slice, count)
        if view is not None:
            return set(view.physical)
    elif slice == "":
        return set(range(count))
    return {each for each in known if each < count}
