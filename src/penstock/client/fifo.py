"""A lock that threads get in the order in which they ask for it."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

LOOK_S: Final = 0.02
"""How often who waits looks whether it is still worth it."""


class FifoLock:
    """A lock for one thread at a time; who gives up waiting leaves the queue."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queue: deque[threading.Event] = deque()
        self._held = False

    def acquire(self, gives_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the lock until it is had, or *gives_up*; tell whether it is had."""
        turn = threading.Event()
        with self._guard:
            if not self._held:
                self._held = True
                return True
            self._queue.append(turn)
        try:
            while not turn.wait(LOOK_S):
                if gives_up() and self._left(turn):
                    return False
        except BaseException:  # Ctrl-C must not leave a lock that nobody has.
            if not self._left(turn):
                self.release()
            raise
        return True

    def release(self) -> None:
        """Hand it to whoever has waited longest."""
        with self._guard:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._held = False

    def _left(self, turn: threading.Event) -> bool:
        """Leave the queue; tell whether that was before the lock was had."""
        with self._guard:
            if turn.is_set():
                return False
            self._queue.remove(turn)
            return True
