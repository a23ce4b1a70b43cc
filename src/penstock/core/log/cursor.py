"""Cursors: opaque texts that a consumer keeps, and the offsets in physical partitions that they stand for.

Joined cursors: one text for the cursors of several partitions of one view, which a stream's reader keeps.

A reader chooses n, the number of partitions that it reads the feed with. The *view* of a feed at n has partitions 0 to
n-1:

    n = count                 each is one physical partition
    n divides count           virtual v merges the physical p with p mod n = v
    n is a multiple of count  virtual v is a slice of the physical v mod count

Source: docs/decisions/feed-extensions.md.

Invariants:
    A cursor holds the next offset of each physical partition that it covers.
    The cursor of a slice is valid for that slice alone; any other cursor is valid for each view that it covers.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, Final
from zlib import crc32

import msgspec

from penstock.errors import BadCursor, BadParameter, BadPartitionCount, CursorExpired, StaleSplit

FIRST: Final = "_first"
LAST: Final = "_last"
CURSOR_CHARS_MAX: Final = 8_192
VIEW_PARTITIONS_MAX: Final = 4_096
"""Upper bound of n: a request with one cursor for each partition fits into a request target."""

_TEXT: Final = re.compile(
    r"1-([0-9a-f]{8})-(\d{1,10})-(\d{1,5})-(\d{1,5})-(\d{1,5})-(\d{1,18}(?:_\d{1,18})*)", re.ASCII
)


class FeedView(msgspec.Struct, frozen=True):
    """One partition of a feed with *count* physical partitions, as a reader with *n* sees it."""

    n: int
    partition: int
    count: int

    @property
    def physical(self) -> tuple[int, ...]:
        """The physical partitions of this view.

        >>> FeedView(2, 1, 4).physical, FeedView(8, 5, 4).physical
        ((1, 3), (1,))
        """
        if self.n >= self.count:
            return (self.partition % self.count,)
        return tuple(range(self.partition, self.count, self.n))

    @property
    def slices(self) -> int:
        """Number of slices into which the view divides its physical partition; 1: it is undivided."""
        return max(1, self.n // self.count)

    @property
    def slice(self) -> int:
        """Number of this slice, from 0."""
        return self.partition // self.count if self.n > self.count else 0


class FeedCursor(msgspec.Struct, frozen=True):
    """A position in one view: the next offset of each of its physical partitions."""

    feed: str
    """The feed's mark: `feed_mark(name)`."""
    epoch: int
    view: FeedView
    offsets: tuple[int, ...]

    def encode(self) -> str:
        """Return the cursor as the text that consumers keep: ASCII, safe in a URL.

        >>> FeedCursor(feed_mark("order.placed"), 1, FeedView(2, 1, 4), (7, 9)).encode()
        '1-f4ec22d8-1-4-2-1-7_9'
        """
        view = self.view
        places = "_".join(map(str, self.offsets))
        return f"1-{self.feed}-{self.epoch}-{view.count}-{view.n}-{view.partition}-{places}"


@lru_cache(maxsize=4096)
def cursor_prefix(name: str, epoch: int, count: int, partition: int) -> str:
    """Return the text of the cursors of one physical partition of the feed *name*, up to their offset.

    >>> cursor_prefix("order.placed", 1, 4, 1) + "7" == FeedCursor(
    ...     feed_mark("order.placed"), 1, FeedView(4, 1, 4), (7,)).encode()
    True
    """
    return FeedCursor(feed_mark(name), epoch, FeedView(count, partition, count), ()).encode()


def feed_mark(name: str) -> str:
    """Return a short hash of a feed's name, by which a cursor of another feed is recognised."""
    return f"{crc32(name.encode()):08x}"


def check_view(n: int, count: int) -> None:
    """Raise BadPartitionCount unless a feed with *count* partitions can be read with *n*."""
    if 1 <= n <= VIEW_PARTITIONS_MAX and (count % n == 0 or n % count == 0):
        return
    raise partition_count_error(n, count)


def partition_count_error(n: int | str | None, count: int) -> BadPartitionCount | BadParameter:
    """Return the error that lists the valid n for a feed with *count* partitions; *n* can be missing, or not a number.

    >>> partition_count_error(3, 4).detail
    'n=3 does not work: the feed has 4 partitions; n can be 1, 2, 4 or a multiple of 4, up to 4096'
    """
    given = "n is missing" if n in (None, "") else f"n={n} does not work"
    detail, known = f"{given}: {_describe_count(count)}", _count_fields(count)
    if isinstance(n, int):
        return BadPartitionCount(detail, n=n, **known)
    return BadParameter(detail, parameter="n", value=n, allowed=f"a whole number: {_valid_counts(count)}", **known)


def add_partition_count(error: BadParameter, count: int) -> BadParameter:
    """Return *error*, which is about n, with the valid n for a feed with *count* partitions.

    >>> add_partition_count(BadParameter("n is given twice", parameter="n"), 1).detail
    'n is given twice; the feed has 1 partition; n can be any whole number, up to 4096'
    """
    return BadParameter(f"{error.detail}; {_describe_count(count)}", **error.fields, **_count_fields(count))


def _describe_count(count: int) -> str:
    there = "1 partition" if count == 1 else f"{count} partitions"
    return f"the feed has {there}; n can be {_valid_counts(count)}, up to {VIEW_PARTITIONS_MAX}"


def _valid_counts(count: int) -> str:
    return "any whole number" if count == 1 else f"{', '.join(map(str, _divisors(count)))} or a multiple of {count}"


def _count_fields(count: int) -> dict[str, Any]:
    return {"partition_count": count, "divisors": _divisors(count)}


def _divisors(count: int) -> list[int]:
    return [d for d in range(1, count + 1) if count % d == 0]


def parse_cursor(text: str, parameter: str, feed: str) -> FeedCursor:
    """Parse the cursor *text* of the feed named *feed*; errors name the *parameter*.

    Raises:
        BadCursor: the text is not a cursor of this hub, or belongs to another feed.
    """
    if len(text) > CURSOR_CHARS_MAX or not (match := _TEXT.fullmatch(text)):
        raise BadCursor(parameter=parameter, value=text[:80], reason="it is not one that this hub has given out")
    mark, *numbers, places = match.groups()
    epoch, count, n, partition = map(int, numbers)
    if mark != feed_mark(feed):
        raise BadCursor(parameter=parameter, value=text[:80], reason=f"it belongs to another feed than {feed!r}")
    offsets = tuple(map(int, places.split("_")))
    view = FeedView(n, partition, count)
    if not (count > 0 and 0 <= partition < n and (count % n == 0 or n % count == 0)) or len(offsets) != len(
        view.physical
    ):
        raise BadCursor(parameter=parameter, value=text[:80], reason="it is not one that this hub has given out")
    return FeedCursor(mark, epoch, view, offsets)


def join_cursors(cursors: Sequence[FeedCursor]) -> str:
    """Return one text for the cursors of some partitions of one feed, taken together at one n.

    The text of one cursor is the cursor's own. Of the others only the partition and the offsets follow.

    >>> views = [FeedView(4, partition, 4) for partition in (0, 1, 3)]
    >>> cursors = [FeedCursor(feed_mark("order.placed"), 1, view, (9 + view.partition,)) for view in views]
    >>> join_cursors(cursors), join_cursors(cursors[:1])
    ('1-f4ec22d8-1-4-4-0-9.1-10.3-12', '1-f4ec22d8-1-4-4-0-9')
    """
    first, *others = cursors
    rest = (f".{each.view.partition}-{'_'.join(map(str, each.offsets))}" for each in others)
    return "".join([first.encode(), *rest])


def split_cursors(text: str, partitions: Collection[int], parameter: str) -> dict[int, str]:
    """Return the cursor of each of *partitions* in a joined *text*; a single cursor is that of every partition.

    Cursors are not parsed: see `parse_cursor`.

    Raises:
        BadCursor: several cursors are joined, and those of some *partitions* are not among them.

    >>> split_cursors("1-f4ec22d8-1-4-4-0-9.1-10.3-12", [0, 3], "Last-Event-ID")
    {0: '1-f4ec22d8-1-4-4-0-9', 3: '1-f4ec22d8-1-4-4-3-12'}
    >>> split_cursors("_first", [0, 1], "Last-Event-ID")
    {0: '_first', 1: '_first'}
    """
    first, *others = text.split(".")
    if not others:
        return dict.fromkeys(partitions, text)
    shared, *own = first.rsplit("-", 2)
    places = ["-".join(own), *others]
    found = {place.partition("-")[0]: f"{shared}-{place}" for place in places}
    missing = [each for each in partitions if str(each) not in found]
    if missing:
        reason = f"it does not have partition {missing[0]}, which is read here"
        raise BadCursor(parameter=parameter, value=text[:80], reason=reason)
    return {each: found[str(each)] for each in partitions}


def resolve_cursor(cursor: FeedCursor, view: FeedView, parameter: str, *, feed: str, epoch: int) -> dict[int, int]:
    """Return the next offset of each physical partition of *view*, according to *cursor*.

    Raises:
        CursorExpired: the feed was created again, or a backup was restored, after the cursor was issued.
        StaleSplit: it is the cursor of a slice, and the partition count has changed.
        BadCursor: it does not cover the view.
    """
    if cursor.epoch != epoch:
        raise CursorExpired(
            parameter=parameter, event_type=feed, partition=view.partition, lost=None, first_available=FIRST,
            last_available=LAST, reason=f"the cursor is of the feed's epoch {cursor.epoch}, which is now {epoch}",
        )  # fmt: skip
    taken = cursor.view
    if taken.slices > 1:
        if taken.count != view.count:
            raise StaleSplit(n=taken.n, cursor_count=taken.count, partition_count=view.count)
        if taken != view:
            raise _make_uncovered_error(parameter, taken)
    known = dict(zip(taken.physical, cursor.offsets, strict=True))
    for physical in view.physical:
        if physical not in known:
            if physical < taken.count or physical % taken.n != taken.partition:
                raise _make_uncovered_error(parameter, taken)
            known[physical] = 0  # The partition was added after the cursor was issued: read it from its start.
    return {physical: known[physical] for physical in view.physical}


def _make_uncovered_error(parameter: str, taken: FeedView) -> BadCursor:
    reason = f"it was taken at n={taken.n} for partition {taken.partition} and does not cover this partition at this n"
    return BadCursor(parameter=parameter, n=taken.n, partition=taken.partition, reason=reason)
