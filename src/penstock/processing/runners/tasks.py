"""Calls a coroutine function in an event loop, on a thread of its own."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Final

from penstock.processing.cpu import Cpu
from penstock.processing.engine.call import Call
from penstock.processing.engine.outcome import Failure, Outcome, timed_out
from penstock.processing.handling import Handling
from penstock.processing.runners.inbox import Inbox, Settled

END_S_MAX: Final = 10.0


class Tasks:
    """Tasks that call one handler. A call that lasts longer than *timeout_s* is cancelled."""

    def __init__(
        self, handling: Handling, inbox: Inbox, clock: Callable[[], float], cpu: Cpu, timeout_s: float | None
    ) -> None:
        self._handling = handling
        self._inbox = inbox
        self._clock = clock
        self._timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        run = cpu.counted("handle", self._loop.run_forever)
        self._thread = threading.Thread(target=run, name="penstock-handlers", daemon=True)
        self._tasks: dict[asyncio.Task[None], Call] = {}
        self._stuck: set[asyncio.Task[None]] = set()
        self._calls: deque[Call] = deque()
        self._most = 0

    def start(self, count: int) -> None:
        """Begin, with so many calls at once."""
        self._most = count
        self._thread.start()

    def replace(self, calls: Sequence[Call]) -> None:
        """Have others go on in the place of *calls*, which do not end though they were cancelled, until they do."""
        self._loop.call_soon_threadsafe(self._give_up, calls)

    def call(self, calls: Sequence[Call]) -> None:
        """Have *calls* made, in their order as others end; what comes of each is put into the inbox."""
        for call in calls:
            call.called = inf
        self._calls.extend(calls)
        self._loop.call_soon_threadsafe(self._begin)

    def withdraw(self) -> list[Call]:
        """Take back the calls that nobody has begun with."""
        found = []
        with suppress(IndexError):
            while True:
                found.append(self._calls.popleft())
        return found

    def stop(self) -> None:
        """End; calls that are under way are cancelled, and waited for for 10 s at most."""
        if self._thread.ident is None:
            self._loop.close()
            return
        ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        with suppress(TimeoutError):
            ending.result(END_S_MAX)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_S_MAX)
        if not self._thread.is_alive():  # Else a handler blocks the loop.
            self._loop.close()

    def _begin(self) -> None:
        with suppress(IndexError):  # They may be taken back meanwhile.
            while self._calls and len(self._tasks) - len(self._stuck) < self._most:
                call = self._calls.popleft()
                task = self._loop.create_task(self._awaited(call))
                self._tasks[task] = call
                task.add_done_callback(self._ended)

    def _give_up(self, calls: Sequence[Call]) -> None:
        given_up = {id(call) for call in calls}
        self._stuck |= {task for task, call in self._tasks.items() if id(call) in given_up}
        self._begin()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        self._stuck.discard(task)
        self._begin()

    async def _awaited(self, call: Call) -> None:
        began = call.called = self._clock()
        try:
            async with asyncio.timeout(self._timeout_s):
                result: Outcome | Failure = await self._handling.awaited(call)
        except TimeoutError:
            assert self._timeout_s is not None, "that is what is over"
            result = timed_out(self._timeout_s)
        except asyncio.CancelledError:  # It is this call that is to end.
            raise
        except BaseException as error:  # noqa: BLE001 - Nobody interrupts this thread: it is the handler's.
            result = self._handling.failed(call, error)
        self._inbox.put(Settled(call, result, self._clock() - began))

    async def _end(self) -> None:
        self._calls.clear()
        under_way = [*self._tasks]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
