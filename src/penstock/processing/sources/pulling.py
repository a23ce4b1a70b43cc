"""What the user's own iterators give, had from a thread of its own: who waits for it can be woken."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Pulling(Generic[T]):
    """Calls *pull* in one thread, when it is asked for what that gives, until `close`.

    Args:
        pull: Gives what is taken next.
        notify: Is called by that thread when there is an answer to take.
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
        """Have *pull* called, unless it goes on already; tell whether there is an answer to take."""
        if not (self._is_over or self._is_waiting):
            self._is_waiting = True
            self._ask()
        return not self._answers.empty()

    def take(self, timeout: float) -> T | None:
        """Return what it gives next; None: it has not come within so many seconds, or all is closed.

        To wait for nothing is to wait until it comes.

        Raises:
            BaseException: what *pull* has raised.
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
        """End; who waits is woken. A call that goes on is not waited for."""
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
        except BaseException as error:  # noqa: BLE001 - Whoever waits is told, also of SystemExit.
            failed = error  # Python forgets the other name.

            def raises() -> T | None:
                raise failed

            return raises
        return lambda: found
