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
from penstock.client.producers.partition_state import AbandonedError, PartitionState, ProducerCall
from penstock.client.producers.partitions import ProducerPartitions

LOOK_INTERVAL: Final = 0.02
"""Seconds between two checks of a waiting thread whether to give up."""


class FifoLock:
    """A lock for threads, acquired in the order of the requests. A thread that gives up leaves the queue."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queue: deque[threading.Event] = deque()
        self._held = False

    def acquire(self, gives_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the lock until *gives_up* returns True. Return whether the lock is acquired."""
        turn = threading.Event()
        with self._guard:
            if not self._held:
                self._held = True
                return True
            self._queue.append(turn)
        try:
            while not turn.wait(LOOK_INTERVAL):
                if gives_up() and self._leave(turn):
                    return False
        except BaseException:  # Ctrl-C must not leave the lock without an owner.
            if not self._leave(turn):
                self.release()
            raise
        return True

    def release(self) -> None:
        """Pass the lock to the thread that has waited longest."""
        with self._guard:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._held = False

    def _leave(self, turn: threading.Event) -> bool:
        """Leave the queue; return whether that was before the lock was acquired."""
        with self._guard:
            if turn.is_set():
                return False
            self._queue.remove(turn)
            return True


TurnLock: TypeAlias = FifoLock
AsyncTurnLock: TypeAlias = anyio.Lock


def pause(cancel: Cancel | None) -> Callable[[float], object]:
    """Return a function that sleeps until *cancel* is set."""
    return cancel.wait if cancel else time.sleep


@contextmanager
def turn(
    lock: TurnLock, partitions: ProducerPartitions[TurnLock], state: PartitionState, call: ProducerCall
) -> Iterator[None]:
    """Hold *lock* during the block, after waiting for it until the call's deadline."""
    if not lock.acquire(lambda: call.is_cancelled() or time.monotonic() > call.deadline):
        raise partitions.make_turn_error(state, call)
    try:
        if call.is_cancelled():
            raise partitions.make_turn_error(state, call)
        yield
    finally:
        lock.release()


def wait_until_free(lock: TurnLock, call: ProducerCall) -> bool:
    """Wait until *lock* is free or the call's deadline; return whether it is free."""
    if not lock.acquire(lambda: time.monotonic() > call.deadline):
        return False
    lock.release()
    return True


def publish(
    work: Callable[[], object],
    entered: AbstractContextManager[None],
    cancel: Cancel | None,
    *,
    partitions: ProducerPartitions[TurnLock],
    state: PartitionState,
    call: ProducerCall,
) -> PublishResult:
    """Run *work* in the block *entered* until it ends or *cancel* is set. Return the result of the call.

    The lock is released with the call: the next call on the partition does not wait for an abandoned thread.

    Raises:
        PublishCancelled: The call was cancelled before it had a result.
    """
    with entered:
        if cancel is None:
            work()
        else:
            _run_in_thread(work, call, cancel, partitions.cancel_grace_seconds)
        if call.result is None:
            raise partitions.make_cancelled_error(state, call)
        return call.result


def _run_in_thread(work: Callable[[], object], call: ProducerCall, cancel: Cancel, grace_seconds: float) -> None:
    """Run *work* in a thread, which is abandoned if the call is cancelled."""
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is passed to the waiting thread
            done.set_exception(error)

    threading.Thread(target=run, name="penstock-publish", daemon=True).start()
    try:
        while not wait([done], LOOK_INTERVAL).done and not cancel.is_set():
            pass
        if not done.done() and call.in_flight:
            wait([done], grace_seconds)
    finally:  # Also after Ctrl-C: the next call finds out the outcome of this one.
        call.abandon()
    if call.result is None and done.done():
        with suppress(AbandonedError):
            done.result()


def async_pause(cancel: AsyncCancel | None) -> Callable[[float], Awaitable[object]]:  # noqa: ARG001 - as of `pause`
    """Return a function that sleeps; *cancel* cancels the sleeping task itself."""
    return async_sleep


@asynccontextmanager
async def async_turn(
    lock: AsyncTurnLock, partitions: ProducerPartitions[AsyncTurnLock], state: PartitionState, call: ProducerCall
) -> AsyncIterator[None]:
    """Hold *lock* during the block, after waiting for it until the call's deadline."""
    with anyio.move_on_after(call.deadline - time.monotonic()) as scope:
        await lock.acquire()
    if scope.cancelled_caught:
        raise partitions.make_turn_error(state, call)
    try:
        yield
    finally:
        lock.release()


async def async_wait_until_free(lock: AsyncTurnLock, call: ProducerCall) -> bool:
    """Wait until *lock* is free or the call's deadline; return whether it is free."""
    with anyio.move_on_after(call.deadline - time.monotonic()) as scope:
        if lock.locked():  # A free lock needs no waiting, even without any time left.
            async with lock:
                pass
    return not scope.cancelled_caught


async def async_publish(
    work: Callable[[], Awaitable[object]],
    entered: AbstractAsyncContextManager[None],
    cancel: AsyncCancel | None,
    *,
    partitions: ProducerPartitions[AsyncTurnLock],
    state: PartitionState,
    call: ProducerCall,
) -> PublishResult:
    """Run *work* in the block *entered* until it ends or *cancel* is set. Return the result of the call.

    Raises:
        PublishCancelled: The call was cancelled before it had a result.
    """

    async def work_in_turn() -> None:
        async with entered:
            await work()

    await _Cancellable(work_in_turn, call, partitions.cancel_grace_seconds).run(cancel)
    if call.result is None:
        raise partitions.make_cancelled_error(state, call)
    return call.result


class _Cancellable:
    """Work that a cancellation ends at once, except while a batch is in flight: its response is awaited."""

    def __init__(self, work: Callable[[], Awaitable[None]], call: ProducerCall, grace_seconds: float) -> None:
        self._work = work
        self._operation = call
        self._grace_seconds = grace_seconds
        self._ended = anyio.Event()
        self._scope = anyio.CancelScope(shield=True)
        self._failed: Exception | None = None

    async def run(self, cancel: AsyncCancel | None) -> None:
        """Run the work until it ends or *cancel* is set."""
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
        """Run the work shielded from cancellation, and keep its error, which a task group would wrap."""
        try:
            with self._scope:
                await self._work()
        except AbandonedError:
            pass
        except Exception as error:  # noqa: BLE001 - it is raised again where the work is waited for
            self._failed = error
        finally:  # Also after an exception of a signal handler: otherwise the caller waits without end.
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
        finally:  # A second cancellation ends the wait.
            self._scope.cancel()
        await self._ended.wait()
