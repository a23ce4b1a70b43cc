"""How many lines of one kind may go into a log."""

from collections import Counter
from typing import Final

LINES_MAX: Final = 10
INTERVAL: Final = 60.0


class LogQuota:
    """Lets so many lines of each kind through in a while; the others are counted.

    Args:
        lines_max: How many.
        interval: In how many seconds.
    """

    def __init__(self, lines_max: int = LINES_MAX, interval: float = INTERVAL) -> None:
        self._lines_max = lines_max
        self._interval = interval
        self._seen: Counter[str] = Counter()
        self._began: float | None = None

    def allows(self, kind: str, now: float) -> bool:
        """Tell whether one more line of that *kind* may go through."""
        if self._began is None:
            self._began = now
        self._seen[kind] += 1
        return self._seen[kind] <= self._lines_max

    def left_out(self, now: float) -> dict[str, int]:
        """Return how many did not go through, by kind, once the while is over: another one begins."""
        if self._began is None or now - self._began < self._interval:
            return {}
        left = {kind: count - self._lines_max for kind, count in self._seen.items() if count > self._lines_max}
        self._seen.clear()
        self._began = None
        return left


def is_said(count: int) -> bool:
    """Tell whether it is to be said that something has failed *count* times in a row: seldomer the more often it has.

    >>> [count for count in range(1, 20) if is_said(count)]
    [1, 2, 4, 8, 16]
    """
    return count & (count - 1) == 0
