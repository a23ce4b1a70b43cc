"""Details of events: the offset, key, kind and time of each, as a reader gets them beside the events themselves."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, compress, pairwise
from typing import Final

import msgspec

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


class EventDetails(msgspec.Struct, omit_defaults=True):
    """Details of events of one partition that follow each other in a page.

    docs/reference/http/feeds.md describes their JSON.
    """

    kind: str
    """Kind of the events that have none of their own: the name of their event type."""
    ends: Sequence[int]
    """For each run of events that were received at one time, the number of events up to the run's end."""
    received_at: Sequence[int]
    """When the hub received the events of each run, in microseconds since 1970, UTC."""
    offset: int | None = None
    """The first event's offset, if the offsets follow each other; otherwise there are `offsets`."""
    offsets: Sequence[int] | None = None
    keys: Sequence[str | None] | None = None
    """The key of each event; None if no event has one."""
    kinds: Sequence[str | None] | None = None
    """The kind of each event; None if all have `kind`."""

    def __post_init__(self) -> None:
        if (given := self.offsets) and given[-1] - given[0] == len(given) - 1:
            self.offset, self.offsets = given[0], None

    def keep(self, kept: Sequence[bool]) -> "EventDetails":
        """Return the details of the events that are *kept*, which are some.

        >>> found = EventDetails("a", [2, 3], [7, 9], 4, None, ["x", "y", "z"]).keep([True, False, True])
        >>> found.ends, found.received_at, found.offsets, found.keys
        ([1, 2], [7, 9], [4, 6], ['x', 'z'])
        """
        counts = [*accumulate(kept, initial=0)]
        runs = [(counts[end], at) for end, at in zip(self.ends, self.received_at, strict=True)]
        runs = [run for before, run in pairwise([(0, 0), *runs]) if run[0] > before[0]]
        first = self.offset
        offsets = self.offsets if first is None else range(first, first + len(kept))
        assert offsets is not None, "details have an offset or offsets"
        return EventDetails(
            self.kind,
            [end for end, _ in runs],
            [at for _, at in runs],
            offsets=[*compress(offsets, kept)],
            keys=None if self.keys is None else [*compress(self.keys, kept)],
            kinds=None if self.kinds is None else [*compress(self.kinds, kept)],
        )

    def cut(self, first: int, stop: int) -> "EventDetails":
        """Return the details of the events from index *first* to before *stop*, which are some.

        >>> found = EventDetails("a", [2, 3, 4], [7, 9, 11], 4, keys=["x", None, "y", "z"]).cut(1, 3)
        >>> found.ends, found.received_at, found.offset, found.keys
        ([1, 2], [7, 9], 5, [None, 'y'])
        """
        run, last = bisect_right(self.ends, first), bisect_right(self.ends, stop - 1)
        return EventDetails(
            self.kind,
            [min(end, stop) - first for end in self.ends[run : last + 1]],
            self.received_at[run : last + 1],
            None if self.offset is None else self.offset + first,
            None if self.offsets is None else self.offsets[first:stop],
            None if self.keys is None else self.keys[first:stop],
            None if self.kinds is None else self.kinds[first:stop],
        )

    @staticmethod
    def join(parts: "Sequence[EventDetails]") -> "EventDetails":
        """Return the details of the events of all *parts*, which are some, of one event type.

        >>> found = EventDetails.join([EventDetails("a", [2], [7], 4), EventDetails("a", [1], [9], 8, keys=["x"])])
        >>> found.ends, found.received_at, found.offsets, found.keys
        ([2, 3], [7, 9], [4, 5, 8], [None, None, 'x'])
        """
        if len(parts) == 1:
            return parts[0]
        starts = accumulate((part.ends[-1] for part in parts), initial=0)
        return EventDetails(
            parts[0].kind,
            [start + end for start, part in zip(starts, parts, strict=False) for end in part.ends],
            [at for part in parts for at in part.received_at],
            offsets=[part.offset_of(index) for part in parts for index in range(part.ends[-1])],
            keys=_join_texts([(part.keys, part.ends[-1]) for part in parts]),
            kinds=_join_texts([(part.kinds, part.ends[-1]) for part in parts]),
        )

    def offset_of(self, index: int) -> int:
        """Return the offset of the event at *index*."""
        if self.offset is not None:
            return self.offset + index
        assert self.offsets is not None, "details have an offset or offsets"
        return self.offsets[index]

    def key_of(self, index: int) -> str | None:
        """Return the key of the event at *index*; None if it has none."""
        return None if self.keys is None else self.keys[index]

    def kind_of(self, index: int) -> str:
        """Return the kind of the event at *index*."""
        own = None if self.kinds is None else self.kinds[index]
        return self.kind if own is None else own

    def received_at_of(self, index: int) -> datetime:
        """Return when the hub received the event at *index*.

        >>> EventDetails("a", [1, 3], [0, 1_500_000], 0).received_at_of(2).isoformat()
        '1970-01-01T00:00:01.500000+00:00'
        """
        return _BEGINNING + timedelta(microseconds=self.received_at[bisect_right(self.ends, index)])


def _join_texts(columns: Sequence[tuple[Sequence[str | None] | None, int]]) -> Sequence[str | None] | None:
    if all(column is None for column, _ in columns):
        return None
    return [text for column, count in columns for text in ([None] * count if column is None else column)]
