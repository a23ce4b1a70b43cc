"""An event loop for calls that are made one after the other: what belongs to a loop stays usable from call to call."""

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

R = TypeVar("R")
_inherited: "Final[list[_Own]]" = []
"""Loops of the process that this one was forked from: to close one would have that process's sleep on."""


class EventLoop(threading.local):
    """A loop of its own for each thread, and for each process that a thread is forked into."""

    _own: "_Own | None" = None

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Return what comes of *coroutine*.

        Raises:
            RuntimeError: an event loop runs in this thread already.
        """
        if self._own is not None and self._own.process != os.getpid():
            _inherited.append(self._own)
            self._own = None
        if self._own is None:
            self._own = _Own()
        return self._own.loop.run_until_complete(coroutine)


class _Own:
    """A loop that is closed when nobody uses it any more."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        # In no other order, also where both are found to be garbage at once: a loop complains that is not closed.
        weakref.finalize(self, self.loop.close).atexit = False
