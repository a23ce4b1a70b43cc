"""How many events stand where among the indices of a tranche: by that it is cut where indices have holes."""

from bisect import bisect_left
from collections.abc import Mapping

BUCKETS = 4096
"""About so many parts a range of indices is divided into."""


class IndexHistogram:
    """Counts of events in ranges of indices.

    Args:
        start: From where on they are counted.
        end: Up to where.
        counts: By the index at which a range begins; ranges without events may be left out.
    """

    def __init__(self, start: int, end: int, counts: Mapping[int, int]) -> None:
        self.start = start
        self.end = end
        self._firsts = sorted(counts)
        self._counts = [counts[first] for first in self._firsts]

    def cut(self, start: int, most: int) -> tuple[int, int]:
        """Return up to where there are at most *most* events from *start* on, and how many these are.

        *start* is where a range begins, or where it is counted from on. Where the first range alone has too many, that
        is where it begins, so there are none.

        >>> found = IndexHistogram(0, 30, {0: 4, 10: 5, 20: 2})
        >>> found.cut(0, 9), found.cut(20, 9), found.cut(0, 3)
        ((20, 9), (30, 2), (0, 0))
        """
        at, events = bisect_left(self._firsts, start), 0
        while at < len(self._firsts):
            if events + self._counts[at] > most:
                return self._firsts[at], events
            events += self._counts[at]
            at += 1
        return self.end, events

    def knows(self, start: int) -> bool:
        """Tell whether it can be cut from *start* on."""
        at = bisect_left(self._firsts, start)
        return start == self.start or (at < len(self._firsts) and self._firsts[at] == start)

    def range_at(self, start: int) -> tuple[int, int]:
        """Return the range with events that begins at *start* or behind it: where, and where the next one does."""
        at = bisect_left(self._firsts, start)
        following = self._firsts[at + 1] if at + 1 < len(self._firsts) else self.end
        return self._firsts[at], following


def width_of(start: int, end: int) -> int:
    """Return how wide the ranges are in which events are counted.

    >>> width_of(0, 10), width_of(0, 4097)
    (1, 2)
    """
    return -(-(end - start) // BUCKETS)
