"""Parked streams of consumer groups, and their first waiting event after a position was moved."""

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

Request: TypeAlias = Literal["retry", "skip"]
"""A request for a parked stream: handle its events again (`retry`), or drop those that wait (`skip`)."""
PARKED_MAX: Final = 10_000
"""The most streams that a group can park at the hub."""
STREAM_CHARS_MAX: Final = 2_000
TAG_CHARS_MAX: Final = 200
DETAIL_CHARS_MAX: Final = 4_000
_NUMBERS: Final = re.compile("[0-9]+")


class StreamPlace(NamedTuple):
    """A stream in a tranche."""

    source: str
    tranche: int
    stream: str


class ParkedStream(NamedTuple):
    """A stream that a processor has parked in a tranche: one event failed, and later ones wait behind it."""

    source: str
    tranche: int
    stream: str
    first: int
    """Index of the first event that waits."""
    next: int
    """Index after the last event that was read."""
    events: int
    attempts: int
    tag: str
    detail: str
    since: str
    """Position from which the tranche is read again to find the events."""

    @property
    def place(self) -> StreamPlace:
        """The stream and where it lies."""
        return StreamPlace(self.source, self.tranche, self.stream)


class ParkedChanges(NamedTuple):
    """Changes of a processor's parked streams. A stream that is both unparked and parked is parked again."""

    parked: Sequence[ParkedStream] = ()
    """Streams to store, in their new state."""
    unparked: Sequence[StreamPlace] = ()
    """Streams to remove."""
    tried: Sequence[StreamPlace] = ()
    """Streams that failed again: their requests are fulfilled."""

    def __bool__(self) -> bool:
        return any(map(bool, self))

    @property
    def sources(self) -> set[str]:
        """The event types of the changed streams."""
        return {each.source for changes in self for each in changes}


NOT_PARKED: Final = ParkedChanges()


def is_before(position: int | str, other: int | str) -> bool:
    """Return whether a position lies before another of its tranche, by comparing the numbers in both.

    >>> is_before("1:9", "1:10"), is_before(3, 3), is_before("2:0", "1:10")
    (True, False, False)
    """
    return _numbers(position) < _numbers(other)


def find_waiting(index: int, since: int | str, position: int | str) -> tuple[int, int | str]:
    """Return the first waiting index of a parked stream, and the position to read it from, after a move to *position*.

    Before the move, the stream waited from *index* on, to be read from *since*. Its events after *position* are read
    again, as those of all other streams are; its events before it still wait.

    >>> find_waiting(7, "1:3", "1:2"), find_waiting(7, "1:3", "1:5"), find_waiting(7, "1:3", "1:8")
    ((0, '1:2'), (5, '1:3'), (7, '1:3'))
    """
    if not is_before(since, position):
        return 0, position
    # Of the numbers of a position, those that are not the same in all of a tranche count as its indices do.
    pairs = zip(_numbers(since), _numbers(position), strict=False)
    first = next((here for before, here in pairs if before != here), index)
    return min(first, index), since


def _numbers(position: int | str) -> list[int]:
    return [*map(int, _NUMBERS.findall(str(position)))]
