"""Gates the calls that threads make to one target: one at a time, with all that has queued meanwhile.

A target that many handlers write to, a row, a file, a partition, gets few large writes in place of many that contend.
"""

import inspect
import threading
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.errors import BadOutcome, OutcomeUnknown
from penstock.processing.gate import Gate
from penstock.processing.parameters import check_flag, check_function, check_returns

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Wait = Callable[[threading.Condition, float | None], object]
"""Waits until a condition is notified, or so many seconds have passed; None: as long as it takes."""


class Batcher(Generic[T]):
    """Has items written together: one call at a time, each item in exactly one, in the order in which they came.

    All items of a call share its fate: what it raises is raised to each that has handed one in. Whatever becomes of a
    call, the next is made. It is made by one of the threads that wait for it, and may not hand anything in itself.

    Args:
        call: Writes a list of items, at least one.
        each: Whether it returns a result for each item, in their order; else what it returns is everyone's.
        linger_seconds: For so many seconds a call waits for company, from when its first item was handed in.
        most: With how many items a call is made at most; with so many it waits no longer. None: with all there are.
        clock: Seconds that never go back.
        wait: How threads wait.

    Raises:
        BadParameter: one of them cannot be.
    """

    def __init__(
        self,
        call: Callable[[list[T]], Any],
        *,
        each: bool = False,
        linger_seconds: float = 0.0,
        most: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Wait = threading.Condition.wait,
    ) -> None:
        check_function("call", call, "items", is_async=False)
        check_returns("call", call)
        check_flag("each", each)
        check_function("clock", clock)
        check_function("wait", wait, "condition", "seconds")
        self._call = call
        self._each = each
        self._clock = clock
        self._wait = wait
        self._gate: Gate[_Entry[T]] = Gate(linger_seconds, most)
        self._turn = threading.Lock()

    def submit(self, item: T) -> Any:
        """Have *item* written, and return what the call returns for it, or for all.

        Raises:
            BadOutcome: the call was to return a result for each item, and has not; what it has written is written.
            OutcomeUnknown: the thread that made the call was interrupted.
            Exception: whatever the call raises.
        """
        with self._turn:
            entry = _Entry(item, threading.Condition(self._turn))
            self._gate.add(entry, self._clock())
            self._rouse()
            try:
                self._see_to(entry)
            except BaseException:
                if self._gate.withdraw(entry):
                    self._rouse()  # Whoever is first now is to look after the next call.
                raise
        return entry.outcome()

    def _see_to(self, entry: "_Entry[T]") -> None:
        """Wait for the call with *entry*; who is first in the queue makes the call."""
        while not entry.is_done:
            seconds = self._gate.wait(self._clock()) if self._gate.first is entry else None
            if seconds == 0:
                self._make(self._gate.take(self._clock()))
            else:
                self._wait(entry.changed, seconds)

    def _make(self, entries: Collection["_Entry[T]"]) -> None:
        outcomes: Sequence[Callable[[], Any]] = [interrupted] * len(entries)
        self._turn.release()
        try:
            outcomes = outcomes_of(self._call, [entry.item for entry in entries], self._each)
        finally:
            self._turn.acquire()
            self._gate.end()
            for entry, outcome in zip(entries, outcomes, strict=True):
                entry.end(outcome)
            self._rouse()

    def _rouse(self) -> None:
        """Have the thread look that is to make the next call."""
        if self._gate.first is not None:
            self._gate.first.changed.notify()


class KeyedBatcher(Generic[K, T]):
    """A `Batcher` for each key, which is forgotten when nobody uses it: calls for other keys go on beside each other.

    Args:
        call: Writes a list of items, at least one, for a key.
        options: Those of a `Batcher`.

    Raises:
        BadParameter: one of them cannot be.
    """

    def __init__(self, call: Callable[[K, list[T]], Any], **options: Any) -> None:
        check_function("call", call, "key", "items", is_async=False)
        check_returns("call", call)
        self._call = call
        self._options = options
        self._gates: dict[K, tuple[Batcher[T], int]] = {}
        self._turn = threading.Lock()
        Batcher[T](lambda _: None, **options)  # What is wrong with the options is said at once.

    def __len__(self) -> int:
        return len(self._gates)

    def submit(self, key: K, item: T) -> Any:
        """Have *item* written for *key*; see `Batcher.submit`."""
        with self._gate(key) as gate:
            return gate.submit(item)

    @contextmanager
    def _gate(self, key: K) -> Any:
        with self._turn:
            gate, users = self._gates.get(key) or (Batcher(partial(self._call, key), **self._options), 0)
            self._gates[key] = gate, users + 1
        try:
            yield gate
        finally:
            with self._turn:
                _, users = self._gates[key]
                self._gates[key] = gate, users - 1
                if users == 1:
                    del self._gates[key]


class _Entry(Generic[T]):
    """An item that waits for its call."""

    __slots__ = ("changed", "is_done", "item", "outcome")

    def __init__(self, item: T, changed: threading.Condition) -> None:
        self.item = item
        self.changed = changed
        self.is_done = False
        self.outcome: Callable[[], Any] = interrupted

    def end(self, outcome: Callable[[], Any]) -> None:
        self.outcome = outcome
        self.is_done = True
        self.changed.notify()


def outcomes_of(call: Callable[[list[T]], Any], items: list[T], each: bool) -> list[Callable[[], Any]]:
    """Make *call*, and return for each of *items* what returns its result, or raises what the call has raised."""
    try:
        return results_of(call([*items]), len(items), each)
    except Exception as error:  # noqa: BLE001 - It is raised to everyone.
        return failures(error, len(items))


def results_of(returned: Any, count: int, each: bool) -> list[Callable[[], Any]]:
    """Return what a call with *count* items has *returned* as the outcome of each.

    Raises:
        BadOutcome: there are not as many results as items; or it has returned a coroutine, and written nothing.
    """
    if inspect.iscoroutine(returned):
        returned.close()
        raise BadOutcome.of("bad-results", items=count, returned="a coroutine, which AsyncBatcher is for")
    if not each:
        return [lambda: returned] * count
    if not isinstance(returned, Sequence) or isinstance(returned, str | bytes) or len(returned) != count:
        raise BadOutcome.of("bad-results", items=count, returned=f"{returned!r:.200}")
    return [partial(_given, result) for result in returned]


def failures(error: Exception, count: int) -> list[Callable[[], Any]]:
    """Return *error* as the outcome of each of *count* items."""
    return [partial(_raise, error)] * count


def _given(result: Any) -> Any:
    return result


def _raise(error: Exception) -> Any:
    # What is raised by several threads would gather all their traces: each has a new one, from where it was raised.
    raise error.with_traceback(None)


def interrupted() -> Any:
    """Be the outcome of an item whose call was interrupted.

    Raises:
        OutcomeUnknown: ever.
    """
    raise OutcomeUnknown(reason="what was writing it was interrupted")
