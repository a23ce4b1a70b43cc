"""Consumer groups: their positions, their lag, and requests to commit or reset positions.

A group can have several positions in one partition: a cursor set that reads with several n, or with n above the
partition count, has one position for each slice. The lag in a partition is that of its slowest slice.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final, Literal, NamedTuple, get_args

from penstock.core.group_names import is_group_name
from penstock.core.log.cursor import FeedView, check_view
from penstock.core.log.start import Start
from penstock.core.registry.definition import is_name
from penstock.errors import BadParameter, BadPartitionCount

Kind = Literal["cursorset", "subscription", "processor", "spark", "reported"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
CURSOR_SET: Final = "cursorset"
SUBSCRIPTION: Final = "subscription"
PROCESSOR: Final = "processor"
REPORTED: Final = "reported"
"""The kind of a group that keeps its positions elsewhere and reports them, to be seen among the others."""
KEPT_AT_CHARS_MAX: Final = 500
MICROSECONDS: Final = 1_000_000


class PartitionExtent(NamedTuple):
    """The offsets that a partition holds."""

    epoch: int
    """The epoch of the feed."""
    floor: int
    """The first offset that retention has left."""
    next_offset: int
    """The offset that the next event will get."""


class GroupProgress(NamedTuple):
    """The position of a consumer group in one slice of a partition, and the extent of that partition."""

    group: str
    source: str
    slice: str
    tranche: int
    epoch: int
    offset: int
    """The next offset that the group wants."""
    updated_at: int
    extent: PartitionExtent | None
    """None: the partition does not exist any longer."""
    received_at: int | None
    """Time at which the oldest retained and uncommitted event was received; None: there is no such event."""

    @property
    def gap(self) -> int | None:
        """Number of retained events that are not committed; None if the partition does not exist."""
        if self.extent is None:
            return None
        start = self.offset if self.epoch == self.extent.epoch else 0
        return max(0, self.extent.next_offset - max(start, self.extent.floor))

    @property
    def lost(self) -> int | None:
        """Number of uncommitted events that retention has removed; None if the partition or its epoch is gone."""
        if self.extent is None or self.epoch != self.extent.epoch:
            return None
        return max(0, self.extent.floor - self.offset)

    @property
    def stuck_reason(self) -> str | None:
        """Reason for which the group cannot continue from its position without a reset; None: it can."""
        if self.extent is None:
            return "there is no such partition any more"
        if self.epoch != self.extent.epoch:
            return f"it is of the feed's epoch {self.epoch}, which is now {self.extent.epoch}"
        return f"retention has removed {self.lost} events after it" if self.lost else None

    def lag(self, now: int) -> int:
        """Return the age of the oldest uncommitted event, in microseconds; 0 if all events are committed."""
        return 0 if self.received_at is None else max(0, now - self.received_at)


class TotalLag(NamedTuple):
    """The lag of a consumer group over all its partitions."""

    gap: int
    """Number of uncommitted events."""
    lag: int
    """Age of the oldest uncommitted event, in microseconds."""
    offset_sum: int
    """Sum of the offsets: what it grows by is what the group has handled."""


def measure_lag(standings: Iterable[GroupProgress], now: int) -> TotalLag:
    """Return the lag of a group with these positions; each partition counts with its slowest slice.

    >>> measure_lag([], 7)
    TotalLag(gap=0, lag=0, offset_sum=0)
    """
    gaps: dict[tuple[str, int], int] = {}
    offsets: dict[tuple[str, int], int] = {}
    lag = 0
    for each in standings:
        place = each.source, each.tranche
        gaps[place] = max(each.gap or 0, gaps.get(place, 0))
        offsets[place] = min(each.offset, offsets.get(place, each.offset))
        lag = max(lag, each.lag(now))
    return TotalLag(sum(gaps.values()), lag, sum(offsets.values()))


_TRANCHE: Final = re.compile(r"(?P<event_type>[^/]{1,255})/(?P<partition>0|[1-9]\d{0,4})", re.ASCII)


def decode_tranche(text: str) -> tuple[str, int]:
    """Return the event type and the partition that the name of a tranche means.

    Raises:
        BadParameter: it is no such name.

    >>> decode_tranche("order.placed/3")
    ('order.placed', 3)
    """
    match = _TRANCHE.fullmatch(text)
    if match is None or not is_name(match["event_type"]):
        allowed = "EVENT_TYPE/PARTITION, such as order.placed/3"
        raise BadParameter(parameter="tranches", value=text[:300], allowed=allowed)
    return match["event_type"], int(match["partition"])


def check_kept_at(text: str) -> None:
    """Raise BadParameter unless *text* can say where positions are kept, without a credential.

    >>> check_kept_at("postgresql://db/shop, table penstock_checkpoints")
    """
    if not (0 < len(text) <= KEPT_AT_CHARS_MAX and text.isprintable()) or "@" in text or "?" in text:
        allowed = f"1 to {KEPT_AT_CHARS_MAX} printable characters without user, password and query (no @ and no ?)"
        shown = text if text.isprintable() and "@" not in text and "?" not in text else "…"
        raise BadParameter(parameter="kept_at", value=shown[:80], allowed=allowed)


def is_slice(text: str) -> bool:
    """Return whether *text* is a valid name of a slice; an undivided source has one slice with the empty name."""
    return text == "" or is_group_name(text)


_SLICE: Final = re.compile(r"(0|[1-9]\d{0,4})/(0|[1-9]\d{0,4})", re.ASCII)


class PositionCommit(NamedTuple):
    """A request to store a position."""

    event_type: str
    partition: int
    offset: int
    """The next offset that the group wants."""
    slice: str = ""
    epoch: int | None = None
    """The epoch of the feed that was read; None: any."""
    is_conditional: bool = False
    """Whether the position is stored only if the current one equals *expected*."""
    expected: int | None = None
    """None: there is no position yet."""


class ResetTarget(NamedTuple):
    """The place to which partitions are reset; exactly one field is set."""

    to: Start | None = None
    offset: int | None = None


class GroupReset(NamedTuple):
    """The positions of a group to reset; a selector that is None matches all."""

    goal: ResetTarget
    event_type: str | None = None
    partition: int | None = None
    slice: str | None = None


def slice_of(view: FeedView) -> str:
    """Return the slice under which the positions of a view are stored.

    >>> slice_of(FeedView(2, 1, 4))
    '2/1'
    """
    return f"{view.n}/{view.partition}"


def view_of(slice: str, count: int) -> FeedView | None:
    """Return the view that a slice stands for in a feed with *count* partitions; None if it stands for no view.

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


def find_covered_partitions(kind: str, slice: str, count: int, known: Collection[int]) -> set[int]:
    """Return the partitions that a slice covers, out of *count*.

    That follows from the group's kind, and from the partitions in which the slice is *known* to have a position.

    >>> sorted(find_covered_partitions("cursorset", "2/1", 4, [1]))
    [1, 3]
    >>> sorted(find_covered_partitions("processor", "", 2, []))
    [0, 1]
    >>> sorted(find_covered_partitions("processor", "worker 7", 4, [3, 9]))
    [3]
    """
    if kind == CURSOR_SET:
        view = view_of(slice, count)
        if view is not None:
            return set(view.physical)
    elif slice == "":
        return set(range(count))
    return {each for each in known if each < count}
