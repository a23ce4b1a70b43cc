"""When a call to one target is made, and with which items; pure, and told the time."""

from collections import deque
from collections.abc import Collection
from typing import Generic, TypeVar

from penstock.processing.parameters import check_count, check_seconds

E = TypeVar("E")


class Gate(Generic[E]):
    """Lets one call at a time through; what comes meanwhile queues, and goes together into the next.

    Invariants:
        From `take` to `end` nothing is taken.
        Each entry is taken once, in the order in which they were added, or withdrawn.

    Args:
        linger_seconds: For so many seconds a call waits for company, from when its first entry was added.
        most: With how many entries a call is made at most; with so many it waits no longer. None: with all.

    Raises:
        BadParameter: one of them cannot be.
    """

    def __init__(self, linger_seconds: float = 0.0, most: int | None = None) -> None:
        check_seconds("linger_seconds", linger_seconds, zero=True)
        if most is not None:
            check_count("most", most)
        self._linger_seconds = linger_seconds
        self._most = most
        self._queue: deque[tuple[E, float]] = deque()
        self.is_busy = False
        """Whether a call goes on."""

    @property
    def first(self) -> E | None:
        """What has waited longest; None: nothing waits."""
        return self._queue[0][0] if self._queue else None

    def add(self, entry: E, now: float) -> None:
        """Have *entry* wait for a call."""
        self._queue.append((entry, now))

    def withdraw(self, entry: E) -> bool:
        """Take *entry* out of the queue; tell whether it was still there."""
        for at, (waiting, _) in enumerate(self._queue):
            if waiting is entry:
                del self._queue[at]
                return True
        return False

    def wait(self, now: float) -> float | None:
        """Return for how many seconds the next call is to wait, 0 if it can be made; None: until something changes."""
        if self.is_busy or not self._queue:
            return None
        if self._most is not None and len(self._queue) >= self._most:
            return 0.0
        return max(0.0, self._queue[0][1] + self._linger_seconds - now)

    def take(self, now: float) -> Collection[E]:
        """Return with what a call is to be made now, until `end`; nothing, if there is none to be made."""
        if self.wait(now) != 0:
            return ()
        count = len(self._queue) if self._most is None else min(self._most, len(self._queue))
        self.is_busy = True
        return [self._queue.popleft()[0] for _ in range(count)]

    def end(self) -> None:
        """Say that the call has ended."""
        self.is_busy = False
