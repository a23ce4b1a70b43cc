"""What threads have for the loop of a processor."""

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
    """Nobody does any more what is asked."""


class Asking:
    """What is asked of a processor's loop.

    Args:
        wake: Has the loop go on, where it sleeps.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._is_over = False

    def ask(self, do: Callable[[], R]) -> R:
        """Have something done by the loop, and return what comes of it.

        Raises:
            ProcessorEnded: the loop has.
            Exception: what it has raised.
        """
        answer: Future[R] = Future()
        self._asked.put((do, answer))
        if self._is_over:
            self.end()
        self._wake()
        return answer.result()

    def do(self) -> None:
        """Do what is asked. For the loop."""
        with suppress(Empty):
            while True:
                do, answer = self._asked.get_nowait()
                try:
                    answer.set_result(do())
                except Exception as error:  # noqa: BLE001 - Whoever asks is told.
                    answer.set_exception(error)

    def end(self) -> None:
        """Tell all who ask that nothing is done any more."""
        self._is_over = True
        with suppress(Empty):
            while True:
                _, answer = self._asked.get_nowait()
                answer.set_exception(ProcessorEnded())


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


Errand: TypeAlias = Callable[[], None]


class Errands:
    """Does one thing after the other, in a thread of its own; the loop is told what has come of each.

    Args:
        inbox: Where the loop hears of it.
        name: The thread's.
        counted: Makes of what the thread runs what it is to run, see `Cpu.counted`.
    """

    def __init__(self, inbox: Inbox, name: str, counted: Callable[[Errand], Errand] = lambda run: run) -> None:
        self._inbox = inbox
        self._errands: SimpleQueue[Errand | None] = SimpleQueue()
        self._thread = threading.Thread(target=counted(self._run), name=name, daemon=True)
        self.is_busy = False
        """Whether something is to come."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def do(self, errand: Callable[[], R], then: Callable[[R], None], failed: Callable[[BaseException], None]) -> None:
        """Have *errand* done; the loop calls *then* with what it returns, or *failed* with what it raises."""
        self.is_busy = True
        self._errands.put(partial(self._do, errand, then, failed))

    def end(self) -> None:
        """Do nothing more; what is being done is not waited for."""
        self._errands.put(None)

    def stop(self) -> None:
        """End, once what is being done has come."""
        self.end()
        if self._thread.is_alive():
            self._thread.join()

    def _do(self, errand: Callable[[], R], then: Callable[[R], None], failed: Callable[[BaseException], None]) -> None:
        try:
            found = errand()
        except BaseException as error:  # noqa: BLE001 - The loop decides what comes of it.
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
