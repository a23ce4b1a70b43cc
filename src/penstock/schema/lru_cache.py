"""Keeps what is costly to make and was wanted lately."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LruCache(Generic[Value]):
    """Keeps things up to *room*, a sum of their sizes; the one that was not wanted for longest goes first.

    Safe to use from many threads: two that want the same at the same time may both make it.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._left = room
        self._kept: OrderedDict[Hashable, tuple[int, Value]] = OrderedDict()
        self.unlock()

    def get(self, key: Hashable, size: int, make: Callable[[], Value]) -> Value:
        """Return what is kept under *key*; else what *make* makes, which is of that *size* and kept from now on.

        >>> shelf = LruCache[str](10)
        >>> shelf.get("a", 6, lambda: "made"), shelf.get("a", 6, lambda: "made again")
        ('made', 'made')
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][1]
        made = make()
        self.put(key, size, made)
        return made

    def put(self, key: Hashable, size: int, thing: Value) -> None:
        """Keep *thing*, which is of that *size*, under *key*, in place of what is kept there.

        >>> shelf = LruCache[str](10)
        >>> shelf.put("a", 6, "old"), shelf.put("a", 7, "new"), shelf.find("a")
        (None, None, 'new')
        """
        with self._lock:
            replaced, _ = self._kept.pop(key, (0, None))
            self._kept[key] = size, thing
            self._left += replaced - size
            while self._left < 0 and len(self._kept) > 1:
                _, (freed, _) = self._kept.popitem(last=False)
                self._left += freed

    def find(self, key: Hashable) -> Value | None:
        """Return what is kept under *key*, None when nothing is; that counts as wanting it.

        >>> shelf = LruCache[str](10)
        >>> shelf.find("a"), shelf.get("a", 6, lambda: "made"), shelf.find("a")
        (None, 'made', 'made')
        """
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][1]

    def unlock(self) -> None:
        """Take a new lock: to be called in a forked process, where nobody is left to release the old one."""
        self._lock = Lock()
