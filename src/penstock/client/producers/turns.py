"""Turns in a partition, and cancellation of a producer's calls, for threads and for tasks.

`FifoLock` is the threads' counterpart of `anyio.Lock`.
"""

import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import Any, Final, TypeAlias

import anyio

from penstock.client.concurrency import AsyncCancel, Cancel, async_sleep
from penstock.client.producers.options import PublishResult
from penstock.client.producers.partition_state import AbandonedError, Lane, Operation
from penstock.client.producers.partitions import Lanes

LOOK_INTERVAL: Final = 0.02
"""How often who waits looks whether it is still worth it."""


class FifoLock:
    """A lock for one thread at a time; who gives up waiting leaves the queue."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queue: deque[threading.Event] = deque()
        self._held = False

    def acquire(self, gives_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the lock until it is had, or *gives_up*; tell whether it is had."""
        turn = threading.Event()
        with self._guard:
            if not self._held:
                self._held = True
                return True
            self._queue.append(turn)
        try:
            while not turn.wait(LOOK_INTERVAL):
                if gives_up() and self._left(turn):
                    return False
        except BaseException:  # Ctrl-C must not leave a lock that nobody has.
            if not self._left(turn):
                self.release()
            raise
        return True

    def release(self) -> None:
        """Hand it to whoever has waited longest."""
        with self._guard:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._held = False

    def _left(self, turn: threading.Event) -> bool:
        """Leave the queue; tell whether that was before the lock was had."""
        with self._guard:
            if turn.is_set():
                return False
            self._queue.remove(turn)
            return True


Guard: TypeAlias = FifoLock
AsyncGuard: TypeAlias = anyio.Lock


def pause(cancel: Cancel | None) -> Callable[[float], object]:
    """Return how a call waits that *cancel* can end."""
    return cancel.wait if cancel else time.sleep


@contextmanager
def turn(guard: Guard, lanes: Lanes[Guard], lane: Lane, operation: Operation) -> Iterator[None]:
    """Wait for a turn, for as long as the operation may last, and have it within the block."""
    if not guard.acquire(lambda: operation.is_cancelled() or time.monotonic() > operation.deadline):
        raise lanes.gave_up_waiting(lane, operation)
    try:
        if operation.is_cancelled():
            raise lanes.gave_up_waiting(lane, operation)
        yield
    finally:
        guard.release()


def is_free(guard: Guard, operation: Operation) -> bool:
    """Wait until nobody has *guard*, for as long as the operation may last; return whether that is so."""
    if not guard.acquire(lambda: time.monotonic() > operation.deadline):
        return False
    guard.release()
    return True


def publish(
    work: Callable[[], object],
    entered: AbstractContextManager[None],
    cancel: Cancel | None,
    *,
    lanes: Lanes[Guard],
    lane: Lane,
    operation: Operation,
) -> PublishResult:
    """Have *work* done in the turn *entered*, or as much of it as *cancel* lets be; return what has come of it.

    The turn ends with the call: the next call on the partition does not wait for a thread that was left to itself.

    Raises:
        PublishCancelled: it was cancelled, and nothing has come of it.
    """
    with entered:
        if cancel is None:
            work()
        else:
            _work_apart(work, operation, cancel, lanes.cancel_grace_seconds)
        if operation.result is None:
            raise lanes.cancelled(lane, operation)
        return operation.result


def _work_apart(work: Callable[[], object], operation: Operation, cancel: Cancel, grace_seconds: float) -> None:
    """Have *work* done in a thread of its own, which is left to itself where the call is cancelled meanwhile."""
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is told to whoever waits
            done.set_exception(error)

    threading.Thread(target=run, name="penstock-publish", daemon=True).start()
    try:
        while not wait([done], LOOK_INTERVAL).done and not cancel.is_set():
            pass
        if not done.done() and operation.in_flight:
            wait([done], grace_seconds)
    finally:  # Ctrl-C too ends it: the next call finds out what became of this one.
        operation.abandon()
    if operation.result is None and done.done():
        with suppress(AbandonedError):
            done.result()


def async_pause(cancel: AsyncCancel | None) -> Callable[[float], Awaitable[object]]:  # noqa: ARG001 - as of `pause`
    """Return how a call waits that *cancel* can end: it ends the task that waits."""
    return async_sleep


@asynccontextmanager
async def async_turn(
    guard: AsyncGuard, lanes: Lanes[AsyncGuard], lane: Lane, operation: Operation
) -> AsyncIterator[None]:
    """Wait for a turn, for as long as the operation may last, and have it within the block."""
    with anyio.move_on_after(operation.deadline - time.monotonic()) as scope:
        await guard.acquire()
    if scope.cancelled_caught:
        raise lanes.gave_up_waiting(lane, operation)
    try:
        yield
    finally:
        guard.release()


async def async_is_free(guard: AsyncGuard, operation: Operation) -> bool:
    """Wait until nobody has *guard*, for as long as the operation may last; return whether that is so."""
    with anyio.move_on_after(operation.deadline - time.monotonic()) as scope:
        if guard.locked():  # Else there is nothing to wait for, not even where there is no time for it.
            async with guard:
                pass
    return not scope.cancelled_caught


async def async_publish(
    work: Callable[[], Awaitable[object]],
    entered: AbstractAsyncContextManager[None],
    cancel: AsyncCancel | None,
    *,
    lanes: Lanes[AsyncGuard],
    lane: Lane,
    operation: Operation,
) -> PublishResult:
    """Have *work* done in the turn *entered*, or as much of it as *cancel* lets be; return what has come of it.

    Raises:
        PublishCancelled: it was cancelled, and nothing has come of it.
    """

    async def work_in_turn() -> None:
        async with entered:
            await work()

    await _Cancellable(work_in_turn, operation, lanes.cancel_grace_seconds).run(cancel)
    if operation.result is None:
        raise lanes.cancelled(lane, operation)
    return operation.result


class _Cancellable:
    """Work that is ended where it stands when it is cancelled, but for a batch in flight: its answer is waited for."""

    def __init__(self, work: Callable[[], Awaitable[None]], operation: Operation, grace_seconds: float) -> None:
        self._work = work
        self._operation = operation
        self._grace_seconds = grace_seconds
        self._ended = anyio.Event()
        self._scope = anyio.CancelScope(shield=True)
        self._failed: Exception | None = None

    async def run(self, cancel: AsyncCancel | None) -> None:
        """Have it done, or as much of it as *cancel* lets be."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._do)
            try:
                await self._wait(tasks, cancel)
            finally:
                if not self._ended.is_set():
                    with anyio.CancelScope(shield=True):
                        await self._settle()
        if self._failed is not None:
            raise self._failed

    async def _do(self) -> None:
        """Do it where no cancellation reaches, and keep what has come of it: a group of tasks would wrap an error."""
        try:
            with self._scope:
                await self._work()
        except AbandonedError:
            pass
        except Exception as error:  # noqa: BLE001 - it is raised again where the work is waited for
            self._failed = error
        finally:  # Whatever ends it, such as a signal's handler: else it would be waited for without end.
            self._ended.set()

    async def _wait(self, tasks: Any, cancel: AsyncCancel | None) -> None:
        if cancel is None:
            await self._ended.wait()
            return

        async def watch() -> None:
            await cancel.wait()
            woken.set()

        async def end() -> None:
            await self._ended.wait()
            woken.set()

        woken = anyio.Event()
        tasks.start_soon(end)
        async with anyio.create_task_group() as watching:
            watching.start_soon(watch)
            await woken.wait()
            watching.cancel_scope.cancel()

    async def _settle(self) -> None:
        try:
            with anyio.move_on_after(self._grace_seconds):
                while self._operation.in_flight and not self._ended.is_set():  # noqa: ASYNC110 - no event tells it
                    await anyio.sleep(LOOK_INTERVAL)
        finally:  # Whoever cancels once more waits for nothing any longer.
            self._scope.cancel()
        await self._ended.wait()
