"""Exclusive use of a source's resource, such as a connection; closing it does not wait for its user."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from penstock.errors import Unavailable

T = TypeVar("T")


class Exclusive(Generic[T]):
    """A resource that one thread at a time uses. If it is in use when closed, its user closes it afterwards.

    Args:
        thing: The resource.
        close: Closes the resource; called once.
    """

    def __init__(self, thing: T, close: Callable[[T], object]) -> None:
        self._thing = thing
        self._close = close
        self._turn = threading.Lock()
        self._is_over = False
        self._is_closed = False

    @contextmanager
    def use(self) -> Iterator[T]:
        """Wait until the resource is free, and yield it.

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
        """Refuse further use, and close the resource; if it is in use, its user closes it."""
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
