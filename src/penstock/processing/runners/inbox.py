"""What threads have for the loop of a processor."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from penstock.processing.engine.call import Call
from penstock.processing.engine.item import Batch
from penstock.processing.engine.outcome import Failure, Outcome


class Settled(NamedTuple):
    """What has come of a call."""

    call: Call
    result: Outcome | Failure
    took: float


Message: TypeAlias = Settled | Sequence[Batch] | BaseException
"""What has come of a call, what was read, or what a thread has ended with."""


class Inbox:
    """What threads have for the loop. It is woken only when it sleeps."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._woken = threading.Event()
        self._sleeps = False

    def put(self, message: Message) -> None:
        """Hand in a message."""
        self._messages.append(message)
        if self._sleeps:
            self._woken.set()

    def wake(self) -> None:
        """Wake the loop without a message."""
        self._woken.set()

    def taken(self) -> list[Message]:
        """Take out what has come."""
        messages = self._messages
        return [messages.popleft() for _ in range(len(messages))]

    def wait(self, seconds: float) -> None:
        """Wait until something comes, up to so long."""
        self._sleeps = True
        if not self._messages:
            self._woken.wait(seconds)
        self._sleeps = False
        self._woken.clear()
