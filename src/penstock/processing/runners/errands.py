"""What may take long, and must not hold the loop of a processor up: reading, committing."""

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

from penstock.processing.runners.inbox import Inbox

R = TypeVar("R")
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
