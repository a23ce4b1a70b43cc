"""Worker threads of a hub: some work at a time, while others may wait for the cold tier's storage."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar

Result = TypeVar("Result")
WORKERS: Final = 8


class Workers(Executor):
    """A pool of threads, of which `WORKERS` work at a time.

    A thread that waits within `waiting` gives its turn to another, so that slow storage keeps nobody else waiting.
    """

    def __init__(self, waiting_max: int = 0) -> None:
        """Let up to *waiting_max* threads wait besides those that work."""
        self._threads = ThreadPoolExecutor(WORKERS + waiting_max, "penstock-worker")
        self._turns = threading.Semaphore(WORKERS) if waiting_max else None
        self._own = threading.local()

    def submit(self, function: Callable[..., Result], /, *args: Any, **named: Any) -> "Future[Result]":
        """See `Executor.submit`."""
        if self._turns is None:
            return self._threads.submit(function, *args, **named)
        return self._threads.submit(self._run, function, *args, **named)

    def _run(self, function: Callable[..., Result], *args: Any, **named: Any) -> Result:
        assert self._turns is not None
        self._own.works = True
        with self._turns:
            return function(*args, **named)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Give the turn of this thread to another while the block runs, if it is one of the pool."""
        if self._turns is None or not getattr(self._own, "works", False):
            yield
            return
        self._turns.release()
        try:
            yield
        finally:
            self._turns.acquire()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See `Executor.shutdown`."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
