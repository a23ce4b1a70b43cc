"""Calls a coroutine function in an event loop, on a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Final

from penstock.processing.cpu import Cpu
from penstock.processing.engine.call import Call
from penstock.processing.handling import Handling
from penstock.processing.runners.inbox import Inbox, Settled

END_S_MAX: Final = 10.0


class Tasks:
    """Tasks that call one handler."""

    def __init__(self, handling: Handling, inbox: Inbox, clock: Callable[[], float], cpu: Cpu) -> None:
        self._handling = handling
        self._inbox = inbox
        self._clock = clock
        self._loop = asyncio.new_event_loop()
        run = cpu.counted("handle", self._loop.run_forever)
        self._thread = threading.Thread(target=run, name="penstock-handlers", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, count: int) -> None:  # noqa: ARG002 - As many as there are calls.
        """Begin."""
        self._thread.start()

    def grow(self, count: int) -> None:
        """Need nothing: a task that is stuck holds no other."""

    def call(self, calls: Sequence[Call]) -> None:
        """Have *calls* made, all at once; what comes of each is put into the inbox."""
        self._loop.call_soon_threadsafe(self._begin, calls)

    def withdraw(self) -> list[Call]:
        """Return nothing: all calls have begun."""
        return []

    def stop(self) -> None:
        """End; calls that are under way are cancelled."""
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(END_S_MAX)
        self._loop.close()

    def _begin(self, calls: Sequence[Call]) -> None:
        for call in calls:
            task = self._loop.create_task(self._awaited(call))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _awaited(self, call: Call) -> None:
        began = self._clock()
        result = await self._handling.awaited(call)
        self._inbox.put(Settled(call, result, self._clock() - began))

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._loop.stop()
