"""Queues from a processor's threads to its loop."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

import msgspec

from penstock.processing.engine.stream import Call
from penstock.processing.outcomes import Failure, Outcome

R = TypeVar("R")


class ProcessorEnded(Exception):
    """The processor's loop has ended and runs no more requests."""


class Asking:
    """Requests of other threads to a processor's loop.

    Args:
        wake: Wakes the loop.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._is_over = False

    def ask(self, do: Callable[[], R]) -> R:
        """Run *do* in the loop, and return its result.

        Raises:
            ProcessorEnded: the loop has ended.
            Exception: the exception that *do* has raised.
        """
        answer: Future[R] = Future()
        self._asked.put((do, answer))
        if self._is_over:
            self.end()
        self._wake()
        return answer.result()

    def do(self) -> None:
        """Run all requests. Only the loop may call it."""
        with suppress(Empty):
            while True:
                do, answer = self._asked.get_nowait()
                try:
                    answer.set_result(do())
                except Exception as error:  # noqa: BLE001 - The caller of ask raises it.
                    answer.set_exception(error)

    def end(self) -> None:
        """Fail all requests with ProcessorEnded, including later ones."""
        self._is_over = True
        with suppress(Empty):
            while True:
                _, answer = self._asked.get_nowait()
                answer.set_exception(ProcessorEnded())


class Settled(msgspec.Struct, gc=False, eq=False):
    """The result of a call."""

    call: Call
    result: Outcome | Failure
    took: float


News: TypeAlias = Settled | Callable[[], None]
"""The result of a call, or a function for the loop to call."""


class Inbox:
    """Items that threads put for the loop. They wake it only if it sleeps."""

    def __init__(self) -> None:
        self._news: deque[News] = deque()
        self._woken = threading.Event()
        self._sleeps = False

    def put(self, item: News) -> None:
        """Add an item."""
        self._news.append(item)
        if self._sleeps:
            self._woken.set()

    def wake(self) -> None:
        """Wake the loop without an item."""
        self._woken.set()

    def taken(self) -> list[News]:
        """Remove and return all items."""
        news = self._news
        return [news.popleft() for _ in range(len(news))]

    def wait(self, seconds: float) -> None:
        """Wait up to *seconds* for an item."""
        self._sleeps = True
        if not self._news:
            self._woken.wait(seconds)
        self._sleeps = False
        self._woken.clear()


Errand: TypeAlias = Callable[[], None]


class Errands:
    """Runs background tasks one after the other, in a thread of its own; the loop receives each result.

    Args:
        inbox: Receives the results, for the loop.
        name: The thread's name.
        counted: Wraps the thread's function, see `Cpu.counted`.
    """

    def __init__(self, inbox: Inbox, name: str, counted: Callable[[Errand], Errand] = lambda run: run) -> None:
        self._inbox = inbox
        self._errands: SimpleQueue[Errand | None] = SimpleQueue()
        self._thread = threading.Thread(target=counted(self._run), name=name, daemon=True)
        self.is_busy = False
        """True if a result is still to come."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def do(self, errand: Callable[[], R], then: Callable[[R], None], failed: Callable[[BaseException], None]) -> None:
        """Run *errand* in the thread; the loop calls *then* with its result, or *failed* with its exception."""
        self.is_busy = True
        self._errands.put(partial(self._do, errand, then, failed))

    def end(self) -> None:
        """Run no further tasks, without waiting for the current one."""
        self._errands.put(None)

    def stop(self) -> None:
        """Stop the thread, and wait for the current task."""
        self.end()
        if self._thread.is_alive():
            self._thread.join()

    def _do(self, errand: Callable[[], R], then: Callable[[R], None], failed: Callable[[BaseException], None]) -> None:
        try:
            found = errand()
        except BaseException as error:  # noqa: BLE001 - The loop decides how to treat it.
            told = partial(failed, error)
        else:
            told = partial(then, found)
        self._inbox.put(partial(self._told, told))

    def _told(self, tell: Errand) -> None:
        self.is_busy = False
        tell()

    def _run(self) -> None:
        while (errand := self._errands.get()) is not None:
            errand()
