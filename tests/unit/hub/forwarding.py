"""A store that forwards to a real one, counts, and lets a test have its say at each transaction, or fail it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.errors import DatabaseUnavailable, OutcomeUnknown
from penstock.storage.store import AppendPlan, Store, Tx


def fail(_number: int = 0) -> None:
    """Let the database be away."""
    raise DatabaseUnavailable(reason="away", retry_after=1)


def fail_at(*numbers: int, after: int = 0) -> Callable[[int], None]:
    """Let the database be away at the transactions of these numbers, counted from 1 behind *after* others."""
    return lambda number: fail() if number - after in numbers else None


def lose_answer() -> None:
    """Let the connection break while a transaction is committed."""
    raise OutcomeUnknown(reason="the connection broke")


class ForwardingStore:
    """Forwards everything; *at_write* is called with each write's number, from 1, before the real one begins."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.at_write: Callable[[int], None] = lambda _number: None
        self.patience: list[bool] = []
        """Of each write: whether it was patient."""
        self.at_read: Callable[[int], None] = lambda _number: None
        """Called with each read's number, from 1, before the real one begins."""
        self.reads = 0
        self.at_commit: Callable[[], None] = lambda: None
        """Called before each write is committed."""
        self.after_commit: Callable[[], None] = lambda: None
        """Called after each write was committed, before its caller hears of it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def writes(self) -> int:
        """How many there were."""
        return len(self.patience)

    @contextmanager
    def write(self, *, patient: bool = True, plan: AppendPlan | None = None) -> Iterator[Tx]:
        """Open a write transaction, after what the test has to say."""
        self.patience.append(patient)
        self.at_write(len(self.patience))
        with self._store.write(patient=patient, plan=plan) as tx:
            yield tx
            self.at_commit()
        self.after_commit()

    @contextmanager
    def read(self, *, timeout: float | None = None) -> Iterator[Tx]:
        """Lend a connection."""
        self.reads += 1
        self.at_read(self.reads)
        with self._store.read(timeout=timeout) as tx:
            yield tx


class Gate:
    """Holds the first write until it is opened: what is asked for meanwhile queues behind it."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()

    def __call__(self, number: int) -> None:
        if number == 1:
            self._reached.set()
            assert self._opened.wait(300), "nobody has opened the gate"

    def await_write(self) -> None:
        """Return when the first write stands at the gate."""
        assert self._reached.wait(300), "nobody has come to the gate"

    def open(self) -> None:
        """Let it go on."""
        self._opened.set()
