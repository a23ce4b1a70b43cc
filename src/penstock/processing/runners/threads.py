"""Calls a handler in threads."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from queue import Empty, SimpleQueue

from penstock.processing.cpu import Cpu
from penstock.processing.engine.call import Call
from penstock.processing.handling import Handling
from penstock.processing.runners.inbox import Inbox, Settled


class Threads:
    """Threads that call one handler."""

    def __init__(self, handling: Handling, inbox: Inbox, clock: Callable[[], float], cpu: Cpu) -> None:
        self._handling = handling
        self._inbox = inbox
        self._clock = clock
        self._cpu = cpu
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._count = 0

    def start(self, count: int) -> None:
        """Begin with so many threads."""
        self.grow(count)

    def grow(self, count: int) -> None:
        """Add threads in the place of those that are stuck."""
        for _ in range(count):
            self._count += 1
            run, name = self._cpu.counted("handle", self._run), f"penstock-handler-{self._count}"
            threading.Thread(target=run, name=name, daemon=True).start()

    def call(self, calls: Sequence[Call]) -> None:
        """Have *calls* made, one after the other as threads are free; what comes of each is put into the inbox."""
        for call in calls:
            call.called = inf
            self._calls.put(call)

    def withdraw(self) -> list[Call]:
        """Take back the calls that nobody has begun with."""
        found = []
        with suppress(Empty):
            while call := self._calls.get_nowait():
                found.append(call)
        return found

    def stop(self) -> None:
        """Have threads end, each when its call has."""
        for _ in range(self._count):
            self._calls.put(None)

    def _run(self) -> None:
        handling, clock, put, get = self._handling, self._clock, self._inbox.put, self._calls.get
        while (call := get()) is not None:
            began = call.called = clock()
            try:
                result = handling(call)
            except BaseException as error:  # noqa: BLE001 - Nobody interrupts this thread: it is the handler's.
                result = handling.failed(call, error)
            put(Settled(call, result, clock() - began))
