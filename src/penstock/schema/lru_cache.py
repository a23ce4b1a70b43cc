"""An LRU cache that is bounded by the sum of the sizes of its values."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LruCache(Generic[Value]):
    """An LRU cache whose values have sizes: it evicts values while the sum of their sizes exceeds *room*.

    The last value is kept, however large. Thread-safe; two threads that miss the same key at the same time can both
    make its value.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._left = room
        self._kept: OrderedDict[Hashable, tuple[int, Value]] = OrderedDict()
        self.unlock()

    def get(self, key: Hashable, size: int, make: Callable[[], Value]) -> Value:
        """Return the value of *key*; on a miss, call *make* and cache its result with this *size*.

        >>> cache = LruCache[str](10)
        >>> cache.get("a", 6, lambda: "made"), cache.get("a", 6, lambda: "made again")
        ('made', 'made')
        """
        found = self.find(key)
        if found is None:
            found = make()
            self.put(key, size, found)
        return found

    def put(self, key: Hashable, size: int, thing: Value) -> None:
        """Cache *value* with this *size* under *key*, in place of the current value.

        >>> cache = LruCache[str](10)
        >>> cache.put("a", 6, "old"), cache.put("a", 7, "new"), cache.find("a")
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
        """Return the value of *key*, None if it is not cached; this counts as a use.

        >>> cache = LruCache[str](10)
        >>> cache.find("a"), cache.get("a", 6, lambda: "made"), cache.find("a")
        (None, 'made', 'made')
        """
        try:
            self._kept.move_to_end(key)  # Each step is one operation of the interpreter, so it needs no lock.
            return self._kept[key][1]
        except KeyError:  # It is not there, or was evicted in between.
            return None

    def unlock(self) -> None:
        """Replace the lock. Call this in a forked process, where a lock that was held can never be released."""
        self._lock = Lock()
