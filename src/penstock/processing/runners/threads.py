"""Calls a handler in threads."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from queue import Empty, SimpleQueue

from penstock.processing.cpu import Cpu
from penstock.processing.engine.stream import Call
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
        self._begun: dict[int, Call] = {}
        """The calls that go on, by their ids. Whoever takes one out of here, and only who does, goes on in its place:
        its own thread, or another one."""

    def start(self, count: int) -> None:
        """Begin with so many threads."""
        self._add(count)

    def replace(self, calls: Sequence[Call]) -> None:
        """Have other threads in the place of those that are stuck in *calls*, which end when their calls do."""
        self._add(sum(self._begun.pop(id(call), None) is not None for call in calls))

    def _add(self, count: int) -> None:
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
        begun = self._begun
        while (call := get()) is not None:
            begun[id(call)] = call
            began = call.called = clock()
            result = handling(call)
            put(Settled(call, result, clock() - began))
            if begun.pop(id(call), None) is None:
                return
