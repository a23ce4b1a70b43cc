"""Has the thread that has an engine do what others ask for."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

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
