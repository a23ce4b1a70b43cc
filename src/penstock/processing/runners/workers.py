"""Calls a handler in threads, or in tasks of an event loop."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from queue import Empty, SimpleQueue
from typing import Final

from penstock.processing.engine.stream import Call
from penstock.processing.handlers import Handling
from penstock.processing.outcomes import Failure, Outcome, timed_out
from penstock.processing.runners.inbox import Inbox, Settled
from penstock.processing.snapshot import Cpu


class Threads:
    """Threads that call one handler."""

    def __init__(self, handling: Handling, inbox: Inbox, clock: Callable[[], float], cpu: Cpu) -> None:
        self._handling = handling
        self._inbox = inbox
        self._clock = clock
        self._cpu = cpu
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._count = 0
        self._begun: dict[int, Call] = {}
        """The active calls, by their ids. Only the thread that removes a call may go on in its place: the call's own
        thread, or a replacement."""

    def start(self, count: int) -> None:
        """Start *count* threads."""
        self._add(count)

    def replace(self, calls: Sequence[Call]) -> None:
        """Start other threads in place of those that are stuck in *calls*; these end with their calls."""
        self._add(sum(self._begun.pop(id(call), None) is not None for call in calls))

    def _add(self, count: int) -> None:
        for _ in range(count):
            self._count += 1
            run, name = self._cpu.counted("handle", self._run), f"penstock-handler-{self._count}"
            threading.Thread(target=run, name=name, daemon=True).start()

    def call(self, calls: Sequence[Call]) -> None:
        """Queue *calls* for the next free threads; their results are put into the inbox."""
        for call in calls:
            call.called = inf
            self._calls.put(call)

    def withdraw(self) -> list[Call]:
        """Remove and return the calls that have not begun."""
        found = []
        with suppress(Empty):
            while call := self._calls.get_nowait():
                found.append(call)
        return found

    def stop(self) -> None:
        """Stop the threads, each after its call."""
        for _ in range(self._count):
            self._calls.put(None)

    def _run(self) -> None:
        handling, clock, put, get = self._handling, self._clock, self._inbox.put, self._calls.get
        begun = self._begun
        while (call := get()) is not None:
            begun[id(call)] = call
            began = call.called = clock()
            result = handling(call)
            put(Settled(call, result, clock() - began))
            if begun.pop(id(call), None) is None:
                return


CANCEL_TIMEOUT: Final = 5.0
"""Seconds that cancelled calls have to end."""


class Tasks:
    """Tasks that call one handler. A call that lasts longer than *timeout* seconds is cancelled.

    The tasks run in *loop*, which runs in a thread of the user's; by default in a loop and thread of their own.
    """

    def __init__(
        self,
        handling: Handling,
        inbox: Inbox,
        clock: Callable[[], float],
        cpu: Cpu,
        *,
        timeout: float | None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._handling = handling
        self._inbox = inbox
        self._clock = clock
        self._timeout = timeout
        self._loop = asyncio.new_event_loop() if loop is None else loop
        self._thread: threading.Thread | None = None
        if loop is None:
            run = cpu.counted("handle", self._run)
            self._thread = threading.Thread(target=run, name="penstock-handlers", daemon=True)
        self._tasks: dict[asyncio.Task[None], Call] = {}
        self._stuck: set[asyncio.Task[None]] = set()
        self._calls: deque[Call] = deque()
        self._most = 0
        self._is_ending = False
        self._is_over = threading.Event()

    def start(self, count: int) -> None:
        """Begin, with up to *count* calls at once."""
        self._most = count
        if self._thread is not None:
            self._thread.start()

    def replace(self, calls: Sequence[Call]) -> None:
        """Allow other calls in place of *calls*, which were cancelled but have not ended, until they end."""
        self._loop.call_soon_threadsafe(self._give_up, calls)

    def call(self, calls: Sequence[Call]) -> None:
        """Queue *calls*, which begin in order as others end; their results are put into the inbox."""
        for call in calls:
            call.called = inf
        self._calls.extend(calls)
        self._loop.call_soon_threadsafe(self._begin)

    def withdraw(self) -> list[Call]:
        """Remove and return the calls that have not begun."""
        found = []
        with suppress(IndexError):
            while True:
                found.append(self._calls.popleft())
        return found

    def stop(self) -> None:
        """Cancel the active calls, wait up to `CANCEL_TIMEOUT` seconds for them, and end.

        Tasks that handlers have started are cancelled after them.
        """
        if self._thread is None:
            with suppress(RuntimeError):  # The loop is closed, so no call is active.
                self._loop.call_soon_threadsafe(self._end)
                self._is_over.wait(CANCEL_TIMEOUT)
            return
        if self._thread.ident is None:
            self._loop.close()
            return
        deadline = time.monotonic() + CANCEL_TIMEOUT
        self._loop.call_soon_threadsafe(self._end)
        self._is_over.wait(CANCEL_TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(max(0.1, deadline - time.monotonic()))  # A handler may block it.

    def _run(self) -> None:
        try:
            self._loop.run_forever()
            self._cancel_what_goes_on_beside()
        finally:
            self._loop.close()

    def _cancel_what_goes_on_beside(self) -> None:
        """Cancel the tasks that handlers have started beside their calls: a batcher would never end by itself."""
        left = asyncio.all_tasks(self._loop) - self._tasks.keys()
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left, timeout=CANCEL_TIMEOUT))

    def _begin(self) -> None:
        with suppress(IndexError):  # They may be withdrawn meanwhile.
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
        call = self._tasks.pop(task)
        self._stuck.discard(task)
        if task.cancelled() and not self._is_ending:  # Cancelled by a handler, maybe before it began.
            now = self._clock()
            call.called = min(call.called, now)
            self._inbox.put(Settled(call, self._handling.failed(call, asyncio.CancelledError()), now - call.called))
        self._begin()
        self._look_whether_all_have_ended()

    async def _awaited(self, call: Call) -> None:
        began = call.called = self._clock()
        try:
            async with asyncio.timeout(self._timeout):
                result: Outcome | Failure = await self._handling.awaited(call)
        except TimeoutError:
            assert self._timeout is not None, "that is what is over"
            result = timed_out(self._timeout)
        except asyncio.CancelledError:  # This call was cancelled: see `_ended`.
            raise
        except BaseException as error:  # noqa: BLE001 - This thread gets no interrupts: the handler raised it.
            result = self._handling.failed(call, error)
        self._inbox.put(Settled(call, result, self._clock() - began))

    def _end(self) -> None:
        self._is_ending = True
        self._calls.clear()
        for task in self._tasks:
            task.cancel()
        self._look_whether_all_have_ended()

    def _look_whether_all_have_ended(self) -> None:
        if self._is_ending and not self._tasks:
            self._is_over.set()
