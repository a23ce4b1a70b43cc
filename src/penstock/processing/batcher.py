"""Gates the calls that threads, or tasks, make to one target: one at a time, with all that has queued meanwhile.

A target that many handlers write to, a row, a file, a partition, gets few large writes in place of many that contend.
"""

import asyncio
import inspect
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.client.concurrency import is_cancelled
from penstock.errors import BadOutcome, OutcomeUnknown
from penstock.processing.parameters import check_count, check_flag, check_function, check_returns, check_seconds

__all__ = ["AsyncBatcher", "AsyncKeyedBatcher", "Batcher", "KeyedBatcher"]

E = TypeVar("E")


class Gate(Generic[E]):
    """Lets one call at a time through; entries that arrive meanwhile queue, and go together into the next call.

    Invariants:
        From `take` to `end` no other entry is taken.
        Each entry is taken once, in the order in which they were added, or withdrawn.

    Args:
        linger_seconds: Seconds that a call waits for more entries after its first entry was added.
        most: The maximum number of entries of a call; a call that has them waits no longer. None: no maximum.

    Raises:
        BadParameter: an argument is invalid.
    """

    def __init__(self, linger_seconds: float = 0.0, most: int | None = None) -> None:
        check_seconds("linger_seconds", linger_seconds, zero=True)
        if most is not None:
            check_count("most", most)
        self._linger_seconds = linger_seconds
        self._most = most
        self._queue: deque[tuple[E, float]] = deque()
        self.is_busy = False
        """True while a call is running."""

    @property
    def first(self) -> E | None:
        """The entry that has waited longest; None: the queue is empty."""
        return self._queue[0][0] if self._queue else None

    def add(self, entry: E, now: float) -> None:
        """Queue *entry* for a call."""
        self._queue.append((entry, now))

    def withdraw(self, entry: E) -> bool:
        """Remove *entry* from the queue; return whether it was still there."""
        for at, (waiting, _) in enumerate(self._queue):
            if waiting is entry:
                del self._queue[at]
                return True
        return False

    def wait(self, now: float) -> float | None:
        """Return the seconds until the next call is due, 0 if it is due now; None: it waits for a change."""
        if self.is_busy or not self._queue:
            return None
        if self._most is not None and len(self._queue) >= self._most:
            return 0.0
        return max(0.0, self._queue[0][1] + self._linger_seconds - now)

    def take(self, now: float) -> Collection[E]:
        """Return the entries of the call to make now, which lasts until `end`; empty if no call is due."""
        if self.wait(now) != 0:
            return ()
        count = len(self._queue) if self._most is None else min(self._most, len(self._queue))
        self.is_busy = True
        return [self._queue.popleft()[0] for _ in range(count)]

    def end(self) -> None:
        """Mark the call as ended."""
        self.is_busy = False


T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Wait = Callable[[threading.Condition, float | None], object]
"""Waits until a condition is notified, or the given seconds have passed; None: without a limit."""


class Batcher(Generic[T]):
    """Writes items in batches: one call at a time, each item in exactly one call, in the order of submission.

    All items of a call share its outcome: an exception of the call is raised in each thread that submitted one of its
    items. A failed call does not stop the next one. One of the waiting threads makes the call, which may not submit
    items itself.

    Args:
        call: Writes a list of items, at least one.
        each: True: the call returns a result for each item, in their order. False: its result is that of all items.
        linger_seconds: Seconds that a call waits for more items after its first item was submitted.
        most: The maximum number of items of a call; a call that has them waits no longer. None: no maximum.
        clock: Returns seconds that never decrease.
        wait: How threads wait.

    Raises:
        BadParameter: an argument is invalid.
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
        """Write *item* in a call, and return the call's result for it, or for all items.

        Raises:
            BadOutcome: the call had to return a result for each item, and did not; its writes stay.
            OutcomeUnknown: the thread that made the call was interrupted.
            Exception: any exception of the call.
        """
        with self._turn:
            entry = _Entry(item, threading.Condition(self._turn))
            self._gate.add(entry, self._clock())
            self._notify_first()
            try:
                self._await_call(entry)
            except BaseException:
                if self._gate.withdraw(entry):
                    self._notify_first()  # The first entry's thread makes the next call.
                raise
        return entry.outcome()

    def _await_call(self, entry: "_Entry[T]") -> None:
        """Wait for the call with *entry*; the thread whose entry is first in the queue makes it."""
        while not entry.is_done:
            seconds = self._gate.wait(self._clock()) if self._gate.first is entry else None
            if seconds == 0:
                self._make_call(self._gate.take(self._clock()))
            else:
                self._wait(entry.changed, seconds)

    def _make_call(self, entries: Collection["_Entry[T]"]) -> None:
        outcomes: Sequence[Callable[[], Any]] = [raise_interrupted] * len(entries)
        self._turn.release()
        try:
            outcomes = call_for_outcomes(self._call, [entry.item for entry in entries], self._each)
        finally:
            self._turn.acquire()
            self._gate.end()
            for entry, outcome in zip(entries, outcomes, strict=True):
                entry.end(outcome)
            self._notify_first()

    def _notify_first(self) -> None:
        """Wake the thread that has to make the next call."""
        if self._gate.first is not None:
            self._gate.first.changed.notify()


class KeyedBatcher(Generic[K, T]):
    """One `Batcher` for each key, removed when it is unused: calls for different keys run concurrently.

    Args:
        call: Writes a list of items, at least one, for a key.
        options: Those of a `Batcher`.

    Raises:
        BadParameter: an argument is invalid.
    """

    def __init__(self, call: Callable[[K, list[T]], Any], **options: Any) -> None:
        check_function("call", call, "key", "items", is_async=False)
        check_returns("call", call)
        self._call = call
        self._options = options
        self._gates: dict[K, tuple[Batcher[T], int]] = {}
        self._turn = threading.Lock()
        Batcher[T](lambda _: None, **options)  # Raises at once if an option is invalid.

    def __len__(self) -> int:
        return len(self._gates)

    def submit(self, key: K, item: T) -> Any:
        """Write *item* for *key*; see `Batcher.submit`."""
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
        self.outcome: Callable[[], Any] = raise_interrupted

    def end(self, outcome: Callable[[], Any]) -> None:
        self.outcome = outcome
        self.is_done = True
        self.changed.notify()


def call_for_outcomes(call: Callable[[list[T]], Any], items: list[T], each: bool) -> list[Callable[[], Any]]:
    """Make *call*, and return a function for each of *items* that returns its result or raises the call's exception."""
    try:
        return split_result(call([*items]), len(items), each)
    except Exception as error:  # noqa: BLE001 - It is raised to everyone.
        return repeat_failure(error, len(items))


def split_result(returned: Any, count: int, each: bool) -> list[Callable[[], Any]]:
    """Return the outcomes of *count* items from the value that their call has *returned*.

    Raises:
        BadOutcome: the numbers of results and items differ; or the call has returned a coroutine, and written nothing.
    """
    if inspect.iscoroutine(returned):
        returned.close()
        raise BadOutcome.of("bad-results", items=count, returned="a coroutine, which AsyncBatcher is for")
    if not each:
        return [lambda: returned] * count
    if not isinstance(returned, Sequence) or isinstance(returned, str | bytes) or len(returned) != count:
        raise BadOutcome.of("bad-results", items=count, returned=f"{returned!r:.200}")
    return [partial(_return, result) for result in returned]


def repeat_failure(error: Exception, count: int) -> list[Callable[[], Any]]:
    """Return *error* as the outcome of each of *count* items."""
    return [partial(_raise, error)] * count


def _return(result: Any) -> Any:
    return result


def _raise(error: Exception) -> Any:
    # An exception that several threads raise would gather all their traces: each has a new one, from the raising line.
    raise error.with_traceback(None)


def raise_interrupted() -> Any:
    """Raise the outcome of an item whose call was interrupted.

    Raises:
        OutcomeUnknown: always.
    """
    raise OutcomeUnknown(reason="what was writing it was interrupted")


class AsyncBatcher(Generic[T]):
    """Writes items of the tasks of one event loop in batches; the loop's clock measures how long a call lingers.

    A separate task makes the calls. A task that is cancelled before its item is in a call withdraws the item; a later
    cancellation does not affect the call.

    Args:
        call: A coroutine function that writes a list of items, at least one.
        each: True: the call returns a result for each item, in their order. False: its result is that of all items.
        linger_seconds: Seconds that a call waits for more items after its first item was submitted.
        most: The maximum number of items of a call; a call that has them waits no longer. None: no maximum.
        idle: Called when no call is running and no item waits.

    Raises:
        BadParameter: an argument is invalid.
    """

    def __init__(
        self,
        call: Callable[[list[T]], Awaitable[Any]],
        *,
        each: bool = False,
        linger_seconds: float = 0.0,
        most: int | None = None,
        idle: Callable[[], object] = lambda: None,
    ) -> None:
        check_function("call", call, "items")
        check_returns("call", call)
        check_flag("each", each)
        check_function("idle", idle)
        self._call = call
        self._each = each
        self._idle = idle
        self._gate: Gate[_AsyncEntry[T]] = Gate(linger_seconds, most)
        self._changed = asyncio.Event()
        self._calls: asyncio.Task[None] | None = None
        """Makes calls for as long as anything waits."""

    async def submit(self, item: T) -> Any:
        """Write *item* in a call, and return the call's result for it, or for all items.

        Raises:
            BadOutcome: the call had to return a result for each item, and did not; its writes stay.
            OutcomeUnknown: an operation that the call awaited was cancelled.
            RuntimeError: the batcher is in use in another event loop, whose tasks cannot be woken from here.
            Exception: any exception of the call.
        """
        loop = asyncio.get_running_loop()
        calls = self._calls
        if calls is not None and calls.get_loop() is not loop:
            raise RuntimeError(
                "this batcher is at work in another event loop: give each loop one, or threads a Batcher"
            )
        entry = _AsyncEntry(item, loop.create_future())
        self._gate.add(entry, loop.time())
        self._changed.set()
        if self._calls is None:
            self._calls = loop.create_task(self._make_calls(loop))
        try:
            return (await entry.outcome)()
        finally:
            if self._gate.withdraw(entry):
                self._changed.set()

    async def _make_calls(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while (seconds := self._gate.wait(loop.time())) is not None:
                self._changed.clear()
                if seconds == 0:
                    await self._make_call(loop.time())
                else:
                    await self._linger(seconds)
        finally:
            self._calls = None
            while (entry := self._gate.first) is not None:  # Cancelling the calls cancels the waiting tasks.
                self._gate.withdraw(entry)
                entry.outcome.cancel()
            self._idle()

    async def _linger(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return

    async def _make_call(self, now: float) -> None:
        entries = self._gate.take(now)
        try:
            returned: Any = self._call([entry.item for entry in entries])
            if inspect.isawaitable(returned):  # Else it is written all the same.
                returned = await returned
            outcomes = split_result(returned, len(entries), self._each)
        except Exception as error:  # noqa: BLE001 - It is raised to everyone.
            outcomes = repeat_failure(error, len(entries))
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError) or is_cancelled():
                for entry in entries:
                    entry.outcome.cancel()
                raise
            outcomes = [raise_interrupted] * len(entries)
        finally:
            self._gate.end()
        for entry, outcome in zip(entries, outcomes, strict=True):
            if not entry.outcome.done():
                entry.outcome.set_result(outcome)


class AsyncKeyedBatcher(Generic[K, T]):
    """One `AsyncBatcher` for each key, removed when it is idle.

    Args:
        call: A coroutine function that writes a list of items, at least one, for a key.
        options: Those of an `AsyncBatcher`, without `idle`.

    Raises:
        BadParameter: an argument is invalid.
    """

    def __init__(self, call: Callable[[K, list[T]], Awaitable[Any]], **options: Any) -> None:
        check_function("call", call, "key", "items")
        check_returns("call", call)
        self._call = call
        self._options = options
        self._gates: dict[K, AsyncBatcher[T]] = {}
        AsyncBatcher[T](partial(call, None), **options, idle=lambda: None)  # type: ignore[arg-type]  # To check them.

    def __len__(self) -> int:
        return len(self._gates)

    async def submit(self, key: K, item: T) -> Any:
        """Write *item* for *key*; see `AsyncBatcher.submit`."""
        gate = self._gates.get(key)
        if gate is None:
            forget = partial(self._gates.pop, key, None)
            gate = self._gates[key] = AsyncBatcher(partial(self._call, key), **self._options, idle=forget)
        return await gate.submit(item)


class _AsyncEntry(Generic[T]):
    """An item that waits for its call."""

    __slots__ = ("item", "outcome")

    def __init__(self, item: T, outcome: asyncio.Future[Callable[[], Any]]) -> None:
        self.item = item
        self.outcome = outcome
