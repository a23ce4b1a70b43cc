"""Turns and cancellation of a producer's calls in tasks; `cancelling` has them for threads. Written by hand."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import anyio

from penstock.client.cancel import LOOK_S, AsyncCancel
from penstock.client.http.async_waiting import async_sleep
from penstock.client.producers.lane import AbandonedError, Lane, Operation
from penstock.client.producers.lanes import Lanes
from penstock.client.producers.options import PublishResult

AsyncGuard: TypeAlias = anyio.Lock


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

    await _Cancellable(work_in_turn, operation, lanes.cancel_grace).run(cancel)
    if operation.result is None:
        raise lanes.cancelled(lane, operation)
    return operation.result


class _Cancellable:
    """Work that is ended where it stands when it is cancelled, but for a batch in flight: its answer is waited for."""

    def __init__(self, work: Callable[[], Awaitable[None]], operation: Operation, grace: float) -> None:
        self._work = work
        self._operation = operation
        self._grace = grace
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
            with anyio.move_on_after(self._grace):
                while self._operation.in_flight and not self._ended.is_set():  # noqa: ASYNC110 - no event tells it
                    await anyio.sleep(LOOK_S)
        finally:  # Whoever cancels once more waits for nothing any longer.
            self._scope.cancel()
        await self._ended.wait()
