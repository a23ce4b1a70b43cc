"""Parked streams of consumer groups: from where they wait on once a position is moved."""

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

Request: TypeAlias = Literal["retry", "skip"]
"""What somebody wants of a parked stream: that it is tried again, or that what waits of it is passed over."""
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
    """A stream that a group's processor has parked in a tranche: an event could not be handled, others wait with it."""

    source: str
    tranche: int
    stream: str
    first: int
    """Index of the first event that waits."""
    next: int
    """Index behind the last event that has come so far."""
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
    """Changes of what a processor has parked. A stream that is both unparked and parked is parked anew."""

    parked: Sequence[ParkedStream] = ()
    """Streams as they are parked now."""
    unparked: Sequence[StreamPlace] = ()
    """Streams that are parked no longer."""
    tried: Sequence[StreamPlace] = ()
    """Streams that were tried again in vain: nothing is wanted of them any longer."""

    def __bool__(self) -> bool:
        return any(map(bool, self))

    @property
    def sources(self) -> set[str]:
        """The event types in which something changes."""
        return {each.source for changes in self for each in changes}


NOT_PARKED: Final = ParkedChanges()


def is_before(position: int | str, other: int | str) -> bool:
    """Return whether a position lies before another of its tranche: by the numbers that it is made of.

    >>> is_before("1:9", "1:10"), is_before(3, 3), is_before("2:0", "1:10")
    (True, False, False)
    """
    return _numbers(position) < _numbers(other)


def find_waiting(index: int, since: int | str, position: int | str) -> tuple[int, int | str]:
    """Return from which index on a parked stream waits, and from where that is read, once its tranche is at *position*.

    Before, it waited from *index* on, which is read from *since*. Its events behind *position* come again, as those of
    all other streams do; its events before that wait on.

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
