"""When traversals start, and which positions what they come upon has.

A *traversal* goes through all there is, from the first to the last. It starts at a second of the clock, and has the
positions second * 1 000 000 000 + 0, 1, 2 …, or as many from a later nanosecond of that second on.
"""

from collections.abc import Callable
from typing import Final

TRAVERSED_MAX: Final = 1_000_000_000
"""What a traversal comes upon at most: more would reach into the positions of the next second."""


class Timetable:
    """The starts of the traversals of one thing, each in seconds since 1970, and larger than the one before.

    While it is traversed, an interval is measured by a clock that does not jump. How long ago a start was that came
    before, only the time of day can tell. Where that lies before the last start, the clock has gone back, nobody can
    say how much time has passed, and the next traversal is due.

    Args:
        interval: The seconds from one start to the next.
        clock: The time of day, in seconds since 1970.
        elapsed: Seconds that never go back.
    """

    def __init__(
        self,
        interval: float,
        *,
        clock: Callable[[], float],
        elapsed: Callable[[], float],
    ) -> None:
        self._interval = interval
        self._clock = clock
        self._elapsed = elapsed
        self._last: int | None = None
        self._due_at = 0.0
        """By the clock that does not jump: when the traversal after the last one is due."""

    def next_start(self, last: int | None) -> int | None:
        """Return the start of the traversal after the one that has started at *last*; None: it is not due yet.

        Without a *last* one, the first is due.
        """
        now = int(self._clock())
        if last != self._last:
            left = 0 if last is None or now < last else max(0, last + self._interval - now)
            self._last, self._due_at = last, self._elapsed() + left
        if last is not None and self._elapsed() < self._due_at:
            return None
        self._last = now if last is None else max(now, last + 1)
        self._due_at = self._elapsed() + self._interval
        return self._last
