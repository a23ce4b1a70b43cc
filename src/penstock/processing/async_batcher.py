"""Gates the calls that tasks make to one target; see `Batcher`."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.client.concurrency import is_cancelled
from penstock.processing.batcher import failures, interrupted, results_of
from penstock.processing.gate import Gate
from penstock.processing.parameters import check_flag, check_function, check_returns

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


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
        self._gate: Gate[_Entry[T]] = Gate(linger_seconds, most)
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
        entry = _Entry(item, loop.create_future())
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


class _Entry(Generic[T]):
    """An item that waits for its call."""

    __slots__ = ("item", "outcome")

    def __init__(self, item: T, outcome: asyncio.Future[Callable[[], Any]]) -> None:
        self.item = item
        self.outcome = outcome
