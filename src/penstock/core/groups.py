"""Consumer groups: what each is called, and how far it is behind.

A group may have several positions in one partition: a cursor set that is kept at several n, or splits its partitions,
has one for each of its slices. The slowest of them tells how far the group is behind there.

Positions as they are committed and reset: what somebody asks for, and which partitions that means.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final, Literal, NamedTuple, get_args

from penstock.core.log.cursor import FeedView, check_view
from penstock.errors import BadPartitionCount

Kind = Literal["cursorset", "subscription", "processor", "spark"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
CURSOR_SET: Final = "cursorset"
SUBSCRIPTION: Final = "subscription"
NAME_CHARS_MAX: Final = 255
PATH_NAME_ALLOWED: Final = f"1 to {NAME_CHARS_MAX} printable characters of ASCII, but neither . nor .. alone"
MICROSECONDS: Final = 1_000_000


class PartitionExtent(NamedTuple):
    """What a partition has."""

    epoch: int
    """Of its feed."""
    floor: int
    """The first offset that retention has left."""
    next_offset: int
    """Where the partition ends."""


class GroupProgress(NamedTuple):
    """Where a consumer group stands in one slice of a partition, and what there is after it."""

    group: str
    source: str
    slice: str
    tranche: int
    epoch: int
    offset: int
    """The one that is wanted next."""
    updated_at: int
    extent: PartitionExtent | None
    """None: there is no such partition any more."""
    received_at: int | None
    """When the oldest event came that is there and not committed; None: there is none."""

    @property
    def gap(self) -> int | None:
        """How many events are there that are not committed; None where that is not known."""
        if self.extent is None:
            return None
        start = self.offset if self.epoch == self.extent.epoch else 0
        return max(0, self.extent.next_offset - max(start, self.extent.floor))

    @property
    def lost(self) -> int | None:
        """How many events are gone that were not committed; None where that is not known."""
        if self.extent is None or self.epoch != self.extent.epoch:
            return None
        return max(0, self.extent.floor - self.offset)

    @property
    def stuck(self) -> str | None:
        """Why it cannot go on from there without somebody's decision; None: it can."""
        if self.extent is None:
            return "there is no such partition any more"
        if self.epoch != self.extent.epoch:
            return f"it is of the feed's epoch {self.epoch}, which is now {self.extent.epoch}"
        return f"retention has removed {self.lost} events after it" if self.lost else None

    def lag(self, now: int) -> int:
        """Return how old the oldest event is that is not committed, in microseconds; 0: there is none."""
        return 0 if self.received_at is None else max(0, now - self.received_at)


class TotalLag(NamedTuple):
    """How far a consumer group is behind."""

    gap: int
    """Events that are not committed."""
    lag: int
    """The age of the oldest of them, in microseconds."""


def measure_lag(standings: Iterable[GroupProgress], now: int) -> TotalLag:
    """Return how far a group is behind that stands so: in each partition as its slowest slice.

    >>> measure_lag([], 7)
    TotalLag(gap=0, lag=0)
    """
    gaps: dict[tuple[str, int], int] = {}
    lag = 0
    for each in standings:
        place = each.source, each.tranche
        gaps[place] = max(each.gap or 0, gaps.get(place, 0))
        lag = max(lag, each.lag(now))
    return TotalLag(sum(gaps.values()), lag)


def is_group_name(text: str) -> bool:
    """Tell whether a consumer group can be called *text*.

    >>> is_group_name("mailer, the second"), is_group_name("grün"), is_group_name("")
    (True, False, False)
    """
    return 0 < len(text) <= NAME_CHARS_MAX and text.isascii() and text.isprintable()


def is_path_name(text: str) -> bool:
    """Tell whether a consumer group can be called *text* that is moved and shown by its name in a path.

    >>> is_path_name("mailer"), is_path_name("..")
    (True, False)
    """
    return is_group_name(text) and text not in (".", "..")


def is_slice(text: str) -> bool:
    """Tell whether a part of a source can be called *text*; one that is not cut has the empty name."""
    return text == "" or is_group_name(text)


_SLICE: Final = re.compile(r"(0|[1-9]\d{0,4})/(0|[1-9]\d{0,4})", re.ASCII)


class PositionCommit(NamedTuple):
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


class ResetTarget(NamedTuple):
    """Where partitions are to be reset to: one of the three."""

    to: Literal["begin", "end"] | None = None
    offset: int | None = None
    at: int | None = None
    """The first event received then or later; in microseconds since 1970, UTC."""


class GroupReset(NamedTuple):
    """What somebody wants to have moved; None each time: all."""

    goal: ResetTarget
    event_type: str | None = None
    partition: int | None = None
    slice: str | None = None


def slice_of(view: FeedView) -> str:
    """Return the slice under which a view's positions are kept.

    >>> slice_of(FeedView(2, 1, 4))
    '2/1'
    """
    return f"{view.n}/{view.partition}"


def view_of(slice: str, count: int) -> FeedView | None:
    """Return the view of a feed with *count* partitions that a slice is of; None: it is of none.

    >>> view_of("2/1", 4), view_of("3/1", 4), view_of("", 4)
    (FeedView(n=2, partition=1, count=4), None, None)
    """
    match = _SLICE.fullmatch(slice)
    if match is None or int(match[2]) >= int(match[1]):
        return None
    try:
        check_view(int(match[1]), count)
    except BadPartitionCount:
        return None
    return FeedView(int(match[1]), int(match[2]), count)


def covered_partitions(kind: str, slice: str, count: int, known: Collection[int]) -> set[int]:
    """Return which of a feed's *count* partitions a slice covers, by the group's kind and where it is *known* to stand.

    >>> sorted(covered_partitions("cursorset", "2/1", 4, [1])), sorted(covered_partitions("processor", "", 2, []))
    ([1, 3], [0, 1])
    >>> sorted(covered_partitions("processor", "worker 7", 4, [3, 9]))
    [3]
    """
    if kind == CURSOR_SET:
        view = view_of(slice, count)
        if view is not None:
            return set(view.physical)
    elif slice == "":
        return set(range(count))
    return {each for each in known if each < count}
