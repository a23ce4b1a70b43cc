"""What one thread at a time uses of a source, such as a connection, closed without waiting for who uses it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from penstock.errors import Unavailable

T = TypeVar("T")


class Exclusive(Generic[T]):
    """Something that one thread at a time uses, until it is closed. Who uses it then closes it afterwards.

    Args:
        thing: What is used.
        close: Closes it; is called once.
    """

    def __init__(self, thing: T, close: Callable[[T], object]) -> None:
        self._thing = thing
        self._close = close
        self._turn = threading.Lock()
        self._is_over = False
        self._is_closed = False

    @contextmanager
    def use(self) -> Iterator[T]:
        """Lend it, once nobody else uses it.

        Raises:
            Unavailable: it is closed.
        """
        try:
            with self._turn:
                if self._is_over:
                    raise Unavailable(reason="the source is closed")
                yield self._thing
        finally:
            if self._is_over:
                self._end()

    def close(self) -> None:
        """Lend it no more, and close it, or have it closed by who uses it."""
        self._is_over = True
        self._end()

    def _end(self) -> None:
        if self._turn.acquire(blocking=False):
            try:
                if not self._is_closed:
                    self._is_closed = True
                    self._close(self._thing)
            finally:
                self._turn.release()
