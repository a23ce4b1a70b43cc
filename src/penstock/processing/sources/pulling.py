"""Calls the user's iterators in a separate thread, so that a waiting thread can be woken."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Pulling(Generic[T]):
    """Calls *pull* in one thread on request, until `close`.

    Args:
        pull: Returns the next value.
        notify: Called by that thread when an answer is ready.
    """

    def __init__(self, pull: Callable[[], T], notify: Callable[[], object] = lambda: None) -> None:
        self._pull = pull
        self._notify = notify
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._answers: SimpleQueue[Callable[[], T | None]] = SimpleQueue()
        self._is_waiting = False
        self._thread: threading.Thread | None = None
        self._is_over = False

    def ask(self) -> bool:
        """Request a call of *pull*, unless one is running; return whether an answer is ready."""
        if not (self._is_over or self._is_waiting):
            self._is_waiting = True
            self._ask()
        return not self._answers.empty()

    def take(self, timeout: float) -> T | None:
        """Return the next value; None: there was none within *timeout* seconds, or it is closed.

        *timeout* 0 waits without a limit.

        Raises:
            BaseException: an exception of *pull*.
        """
        if self._is_over:
            return None
        self.ask()
        try:
            answer = self._answers.get(timeout=timeout or None)
        except Empty:
            return None
        self._is_waiting = False
        return answer()

    def close(self) -> None:
        """End, and wake the waiting thread; a running call is not waited for."""
        self._is_over = True
        self._asked.put(False)
        self._answers.put(lambda: None)

    def _ask(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-puller", daemon=True)
            self._thread.start()
        self._asked.put(True)

    def _run(self) -> None:
        while self._asked.get():
            self._answers.put(self._answer())
            self._notify()

    def _answer(self) -> Callable[[], T | None]:
        try:
            found = self._pull()
        except BaseException as error:  # noqa: BLE001 - The waiting thread raises it, even SystemExit.
            failed = error  # Python forgets the other name.

            def raises() -> T | None:
                raise failed

            return raises
        return lambda: found
