"""What threads have for the loop of a processor."""

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from penstock.processing.engine.outcome import Failure, Outcome
from penstock.processing.engine.stream import Call


class Settled(msgspec.Struct, gc=False, eq=False):
    """What has come of a call."""

    call: Call
    result: Outcome | Failure
    took: float


News: TypeAlias = Settled | Callable[[], None]
"""What has come of a call, or what the loop is to do."""


class Inbox:
    """What threads have for the loop. It is woken only when it sleeps."""

    def __init__(self) -> None:
        self._news: deque[News] = deque()
        self._woken = threading.Event()
        self._sleeps = False

    def put(self, item: News) -> None:
        """Hand in what has come."""
        self._news.append(item)
        if self._sleeps:
            self._woken.set()

    def wake(self) -> None:
        """Wake the loop without anything."""
        self._woken.set()

    def taken(self) -> list[News]:
        """Take out what has come."""
        news = self._news
        return [news.popleft() for _ in range(len(news))]

    def wait(self, seconds: float) -> None:
        """Wait until something comes, up to so long."""
        self._sleeps = True
        if not self._news:
            self._woken.wait(seconds)
        self._sleeps = False
        self._woken.clear()
