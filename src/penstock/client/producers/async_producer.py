"""Publishes each event at most once, and says for certain what has become of it, for async code."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio

from penstock.client.async_client import AsyncClient
from penstock.client.cancel import LOOK_S, AsyncCancel, check_async_cancel
from penstock.client.http.async_transport import AsyncTalk
from penstock.client.http.library import AsyncClosing
from penstock.client.producers.event_batch import EventBatch
from penstock.client.producers.lane import AbandonedError, Lane, Operation
from penstock.client.producers.lanes import (
    ATTEMPT_TIMEOUT_S,
    BATCH_BYTES,
    CANCEL_GRACE_S,
    DELIVERY_TIMEOUT_S,
    Lanes,
    check_client,
)
from penstock.client.producers.options import (
    CloseReport,
    OnUnknown,
    PartitionPublishingOptions,
    PublishResult,
    Resolution,
)
from penstock.client.registry import PublishingProperties
from penstock.client.retry import RetryPolicy
from penstock.wire.http import Exchange

T = TypeVar("T")


class AsyncIdempotentProducer(AsyncClosing):
    """An IdempotentProducer for async code; see there. Its methods may be called from several tasks at one time.

    A task that is cancelled while it publishes waits for the answer to what it has sent, for as long as `cancel_grace`,
    before it ends as cancelled: events, and batches, know afterwards whether they are published.

    Args:
        client: The hub's AsyncClient, which stays open when this is closed.
        event_type, producer_group, partition_options, retry, pinned, delivery_timeout, attempt_timeout, on_unknown,
            cancel_grace, on_resolution: As for `IdempotentProducer`.
    """

    def __init__(
        self,
        client: AsyncClient,
        event_type: str,
        *,
        producer_group: str | None = None,
        partition_options: Mapping[int, PartitionPublishingOptions] | None = None,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - it is immutable
        pinned: bool = False,
        delivery_timeout: float = DELIVERY_TIMEOUT_S,
        attempt_timeout: float = ATTEMPT_TIMEOUT_S,
        on_unknown: OnUnknown = "resolve",
        cancel_grace: float = CANCEL_GRACE_S,
        on_resolution: Callable[[Resolution], object] | None = None,
    ) -> None:
        check_client(client, AsyncClient, "an IdempotentProducer is made")
        protocol, self._transport = client.parts()
        self._lanes = Lanes(
            protocol,
            event_type,
            anyio.Lock,
            group=producer_group,
            options=partition_options or {},
            retry=retry,
            pinned=pinned,
            delivery_timeout=delivery_timeout,
            attempt_timeout=attempt_timeout,
            on_unknown=on_unknown,
            cancel_grace=cancel_grace,
            on_resolution=on_resolution,
        )
        self._naming = anyio.Lock()

    @property
    def event_type(self) -> str:
        """Where it publishes to."""
        return self._lanes.producing.event_type

    @property
    def producer_group(self) -> str | None:
        """Its producer group; None: it has not got one yet."""
        return self._lanes.producing.group

    async def send(
        self,
        events: Any,
        *,
        partition: int | None = None,
        cancel: AsyncCancel | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - a time that is over does not interrupt what is in flight
    ) -> PublishResult:
        """Publish one event, any number of them, or an EventBatch; see `IdempotentProducer.send`.

        An `asyncio.Event`, or anyio's, is what *cancel* can be; the task can be cancelled as well.
        """
        check_async_cancel(cancel)
        lane, values = self._lanes.given(events, partition)
        if not values:
            return self._lanes.nothing(lane)
        operation = self._lanes.operation(timeout, cancel.is_set if cancel else None, values)

        async def work() -> None:
            async with self._entered(lane, operation):
                await self._begin(lane, operation)
                await self._carry_out(self._lanes.producing.send(lane, values, operation))

        with self._lanes.marked(events, operation), self._lanes.told(lane, operation):
            await _Cancellable(work, operation, self._lanes.cancel_grace).run(cancel)
        if operation.result is None:
            raise self._lanes.cancelled(lane, operation)
        return operation.result

    async def create_batch(self, partition: int, max_bytes: int = BATCH_BYTES) -> EventBatch:
        """Return an empty batch; see `IdempotentProducer.create_batch`."""
        lane, operation = self._lanes.lane(partition), self._lanes.operation(None)
        with self._lanes.told(lane, operation):
            category = await self._transport.carry_out(self._lanes.producing.category(operation))
        return self._lanes.batch(lane, max_bytes, category)

    async def get_publishing_properties(self, partition: int, *, refresh: bool = False) -> PublishingProperties:
        """Return how far it has come in a partition; see `IdempotentProducer.get_publishing_properties`."""
        lane, operation = self._lanes.lane(partition), self._lanes.operation(None)
        async with self._entered(lane, operation):
            await self._begin(lane, operation)
            if refresh:
                return await self._transport.carry_out(self._lanes.producing.properties(lane, operation))
        return self._lanes.properties(lane)

    async def resolve(self, partition: int) -> Resolution | None:
        """Find out whether the last batch is stored; see `IdempotentProducer.resolve`."""
        lane, operation = self._lanes.lane(partition), self._lanes.operation(None)
        async with self._entered(lane, operation):
            return await self._transport.carry_out(self._lanes.producing.resolve(lane, operation))

    async def aclose(self, timeout: float | None = None) -> CloseReport:  # noqa: ASYNC109 - it interrupts nothing
        """Publish nothing more, and return what is left open; see `IdempotentProducer.close`."""
        operation = self._lanes.closed(timeout)
        unfinished = []
        for lane in self._lanes.all():
            guard = self._lanes.guard(lane)
            with anyio.move_on_after(operation.deadline - time.monotonic()) as scope:
                if guard.locked():  # Else there is nothing to wait for, not even where there is no time for it.
                    async with guard:
                        pass
            if scope.cancelled_caught:
                unfinished.append(lane.partition)
        return self._lanes.report(unfinished)

    def __repr__(self) -> str:
        return self._lanes.shown(self)

    async def _begin(self, lane: Lane, operation: Operation) -> None:
        if self.producer_group is None:
            async with self._turn(self._naming, lane, operation):
                await self._carry_out(self._lanes.producing.begin(lane, operation))
        else:
            await self._carry_out(self._lanes.producing.begin(lane, operation))

    async def _carry_out(self, exchange: Exchange[T]) -> T:
        talk = AsyncTalk(self._transport.http, exchange)
        try:
            while await talk.advance() is not None:
                pass
            return talk.outcome
        finally:
            await talk.aclose()

    @asynccontextmanager
    async def _entered(self, lane: Lane, operation: Operation) -> AsyncIterator[None]:
        async with self._turn(self._lanes.guard(lane), lane, operation):
            self._lanes.check_open()
            yield

    @asynccontextmanager
    async def _turn(self, guard: anyio.Lock, lane: Lane, operation: Operation) -> AsyncIterator[None]:
        with anyio.move_on_after(operation.deadline - time.monotonic()) as scope:
            await guard.acquire()
        if scope.cancelled_caught:
            raise self._lanes.gave_up_waiting(lane, operation)
        try:
            yield
        finally:
            guard.release()


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
