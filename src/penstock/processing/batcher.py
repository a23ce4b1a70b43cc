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
    """Lets one call at a time through; what comes meanwhile queues, and goes together into the next.

    Invariants:
        From `take` to `end` nothing is taken.
        Each entry is taken once, in the order in which they were added, or withdrawn.

    Args:
        linger_seconds: For so many seconds a call waits for company, from when its first entry was added.
        most: With how many entries a call is made at most; with so many it waits no longer. None: with all.

    Raises:
        BadParameter: one of them cannot be.
    """

    def __init__(self, linger_seconds: float = 0.0, most: int | None = None) -> None:
        check_seconds("linger_seconds", linger_seconds, zero=True)
        if most is not None:
            check_count("most", most)
        self._linger_seconds = linger_seconds
        self._most = most
        self._queue: deque[tuple[E, float]] = deque()
        self.is_busy = False
        """Whether a call goes on."""

    @property
    def first(self) -> E | None:
        """What has waited longest; None: nothing waits."""
        return self._queue[0][0] if self._queue else None

    def add(self, entry: E, now: float) -> None:
        """Have *entry* wait for a call."""
        self._queue.append((entry, now))

    def withdraw(self, entry: E) -> bool:
        """Take *entry* out of the queue; tell whether it was still there."""
        for at, (waiting, _) in enumerate(self._queue):
            if waiting is entry:
                del self._queue[at]
                return True
        return False

    def wait(self, now: float) -> float | None:
        """Return for how many seconds the next call is to wait, 0 if it can be made; None: until something changes."""
        if self.is_busy or not self._queue:
            return None
        if self._most is not None and len(self._queue) >= self._most:
            return 0.0
        return max(0.0, self._queue[0][1] + self._linger_seconds - now)

    def take(self, now: float) -> Collection[E]:
        """Return with what a call is to be made now, until `end`; nothing, if there is none to be made."""
        if self.wait(now) != 0:
            return ()
        count = len(self._queue) if self._most is None else min(self._most, len(self._queue))
        self.is_busy = True
        return [self._queue.popleft()[0] for _ in range(count)]

    def end(self) -> None:
        """Say that the call has ended."""
        self.is_busy = False


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


class AsyncBatcher(Generic[T]):
    """Has items written together, by the tasks of one event loop, whose clock says how long a call lingers.

    Calls are made by a task of their own. A task that is cancelled before its item is in a call takes it back; one that
    is cancelled later leaves the call as it is.

    Args:
        call: A coroutine function that writes a list of items, at least one.
        each: Whether it returns a result for each item, in their order; else what it returns is everyone's.
        linger_seconds: For so many seconds a call waits for company, from when its first item was handed in.
        most: With how many items a call is made at most; with so many it waits no longer. None: with all there are.
        idle: Called when nothing goes on any more, and nothing waits.

    Raises:
        BadParameter: one of them cannot be.
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
        """Have *item* written, and return what the call returns for it, or for all.

        Raises:
            BadOutcome: the call was to return a result for each item, and has not; what it has written is written.
            OutcomeUnknown: something that the call has waited for was cancelled.
            RuntimeError: the batcher is at work in another event loop, where nobody would be woken from here.
            Exception: whatever the call raises.
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
                    await self._make(loop.time())
                else:
                    await self._lingered(seconds)
        finally:
            self._calls = None
            while (entry := self._gate.first) is not None:  # Whoever ends the calls ends those who wait for one.
                self._gate.withdraw(entry)
                entry.outcome.cancel()
            self._idle()

    async def _lingered(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return

    async def _make(self, now: float) -> None:
        entries = self._gate.take(now)
        try:
            returned: Any = self._call([entry.item for entry in entries])
            if inspect.isawaitable(returned):  # Else it is written all the same.
                returned = await returned
            outcomes = results_of(returned, len(entries), self._each)
        except Exception as error:  # noqa: BLE001 - It is raised to everyone.
            outcomes = failures(error, len(entries))
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError) or is_cancelled():
                for entry in entries:
                    entry.outcome.cancel()
                raise
            outcomes = [interrupted] * len(entries)
        finally:
            self._gate.end()
        for entry, outcome in zip(entries, outcomes, strict=True):
            if not entry.outcome.done():
                entry.outcome.set_result(outcome)


class AsyncKeyedBatcher(Generic[K, T]):
    """An `AsyncBatcher` for each key, which is forgotten when it has nothing to do.

    Args:
        call: A coroutine function that writes a list of items, at least one, for a key.
        options: Those of an `AsyncBatcher`, without `idle`.

    Raises:
        BadParameter: one of them cannot be.
    """

    def __init__(self, call: Callable[[K, list[T]], Awaitable[Any]], **options: Any) -> None:
        check_function("call", call, "key", "items")
        check_returns("call", call)
        self._call = call
        self._options = options
        self._gates: dict[K, AsyncBatcher[T]] = {}
        AsyncBatcher[T](partial(call, None), **options, idle=lambda: None)  # type: ignore[arg-type]  # Says at once what is wrong.

    def __len__(self) -> int:
        return len(self._gates)

    async def submit(self, key: K, item: T) -> Any:
        """Have *item* written for *key*; see `AsyncBatcher.submit`."""
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
