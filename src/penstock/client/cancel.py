"""A lock that threads get in the order in which they ask for it.

By which a call or a consumer is told to stop.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Final, Protocol

from penstock.errors import BadParameter

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


class Cancel(Protocol):
    """By which a call is told to stop, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Say whether to stop."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until that is so, or for so many seconds."""


class AsyncCancel(Protocol):
    """By which a call or a task is told to stop, such as an `asyncio.Event` or an `anyio.Event`."""

    def is_set(self) -> bool:
        """Say whether to stop."""

    async def wait(self) -> object:
        """Wait until that is so."""


def check_cancel(given: object) -> None:
    """Raise BadParameter unless *given* is a `Cancel`, or None: an async one could not be asked."""
    wait = getattr(given, "wait", None)
    if given is not None and (not callable(wait) or iscoroutinefunction(wait)):
        raise BadParameter(parameter="cancel", value=type(given).__name__, allowed="a threading.Event")


def check_async_cancel(given: object) -> None:
    """Raise BadParameter unless *given* is an `AsyncCancel`, or None."""
    if given is not None and not iscoroutinefunction(getattr(given, "wait", None)):
        allowed = "an asyncio.Event, or anyio's: whatever else is waited for would hold up the event loop"
        raise BadParameter(parameter="cancel", value=type(given).__name__, allowed=allowed)


def is_cancelled() -> bool:
    """Tell whether somebody wants the task to end that asks: else a CancelledError is of what it has waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
