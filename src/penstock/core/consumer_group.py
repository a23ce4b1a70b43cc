"""Consumer groups: what each is called, and how far it is behind.

A group may have several positions in one partition: a cursor set that is kept at several n, or splits its partitions,
has one for each of its slices. The slowest of them tells how far the group is behind there.
"""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, get_args

Kind = Literal["cursorset", "subscription", "processor", "spark"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
CURSOR_SET: Final = "cursorset"
SUBSCRIPTION: Final = "subscription"
NAME_CHARS_MAX: Final = 255
PATH_NAME_ALLOWED: Final = f"1 to {NAME_CHARS_MAX} printable characters of ASCII, but neither . nor .. alone"
MICROSECONDS: Final = 1_000_000


class Extent(NamedTuple):
    """What a partition has."""

    epoch: int
    """Of its feed."""
    floor: int
    """The first offset that retention has left."""
    next_offset: int
    """Where the partition ends."""


class Standing(NamedTuple):
    """Where a consumer group stands in one slice of a partition, and what there is after it."""

    group: str
    source: str
    slice: str
    tranche: int
    epoch: int
    offset: int
    """The one that is wanted next."""
    updated_at: int
    extent: Extent | None
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


class Behind(NamedTuple):
    """How far a consumer group is behind."""

    gap: int
    """Events that are not committed."""
    lag: int
    """The age of the oldest of them, in microseconds."""


def behind(standings: Iterable[Standing], now: int) -> Behind:
    """Return how far a group is behind that stands so: in each partition as its slowest slice.

    >>> behind([], 7)
    Behind(gap=0, lag=0)
    """
    gaps: dict[tuple[str, int], int] = {}
    lag = 0
    for each in standings:
        place = each.source, each.tranche
        gaps[place] = max(each.gap or 0, gaps.get(place, 0))
        lag = max(lag, each.lag(now))
    return Behind(sum(gaps.values()), lag)


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
