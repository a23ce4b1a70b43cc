"""Where a thread that reads a stream puts what it has read, and the driver takes it out."""

import threading
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class BoundedQueue(Generic[Item]):
    """Items in their order; who puts one in waits while it is full.

    Memory: up to *bytes_max*, and one item.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._items: deque[tuple[Item, int]] = deque()
        self._bytes = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, item: Item, size: int) -> bool:
        """Put in an *item* of *size* bytes, once there is room; False: the inbox is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._bytes < self._bytes_max)
            if self._is_closed:
                return False
            self._items.append((item, size))
            self._bytes += size
            self._changed.notify_all()
            return True

    def take(self, timeout: float | None) -> Item | None:
        """Take out the next item; None: there has come none for *timeout* seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._items, timeout):
                return None
            item, size = self._items.popleft()
            self._bytes -= size
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Let nothing in any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
