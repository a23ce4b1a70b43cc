"""Has an async function of yours handle what a subscription brings."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio

from penstock.client.cancel import AsyncCancel, check_async_cancel, is_cancelled
from penstock.client.http.async_transport import AsyncTransport
from penstock.client.subscriptions.async_stream import AsyncSubscriptionStream
from penstock.client.subscriptions.consuming import (
    AsyncConsumerOptions,
    Commit,
    Consumed,
    Consuming,
    End,
    Over,
    Step,
    Wait,
    check_callable,
    consumer_wish,
    exchange_of,
)
from penstock.client.subscriptions.streaming import StreamBegan, StreamEnded, SubscriptionBatch
from penstock.errors import PenstockError

CUT_OFF_S: Final = 5.0
"""So long a consumer that is cancelled commits what was handled."""


class AsyncConsumer:
    """Has an async handler called with each batch of a subscription, and commits what it has handled; see `Consumer`.

    Handlers are tasks. Where the task that runs it is cancelled, so are they; what was handled is committed all the
    same, and the partitions are given back.

    Args:
        transport, url, patience: Of the client.
        subscription, handler, options: As for `AsyncClient.consumer`.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        url: str,
        subscription: str | Mapping[str, Any],
        handler: Callable[[SubscriptionBatch[Any]], Awaitable[object]],
        options: AsyncConsumerOptions,
        *,
        patience: float,
    ) -> None:
        wish, stream = consumer_wish(options)
        check_callable("handler", handler)
        check_async_cancel(wish.cancel)
        self._transport = transport
        self._stream: AsyncSubscriptionStream[Any] = AsyncSubscriptionStream(
            transport, url, subscription, stream, retry=wish.retry, patience=patience, reconnect=True, kind=wish.type
        )
        self._consuming = Consuming(
            commit_s=stream.commit_timeout,
            grace_s=wish.grace,
            patience_s=patience,
            delay_max=wish.retry.max_delay,
            clock=time.monotonic,
        )
        self._handler = handler
        self._workers = wish.workers
        self._cancel: AsyncCancel | None = wish.cancel
        self._on_error = wish.on_error
        self._progress = wish.progress
        self._changed: anyio.Event | None = None

    @property
    def subscription_id(self) -> str | None:
        """The subscription's id; None: it is to be created, and has not been asked for yet."""
        return self._stream.id

    @property
    def consumed(self) -> Consumed:
        """How far it has come."""
        return self._consuming.consumed

    @property
    def is_stopping(self) -> bool:
        """Whether no handler is begun any more."""
        return self._consuming.is_stopping

    def stop(self) -> None:
        """Have it end, from another task or from the handler; see `Consumer.stop`."""
        self._consuming.stop("stopped")
        self._notify()

    async def run(self) -> Consumed:
        """Handle batches until it is stopped; return how far it has come; see `Consumer.run`."""
        self._changed = anyio.Event()
        async with anyio.create_task_group() as tasks:
            try:
                tasks.start_soon(self._read)
                for _ in range(self._workers):
                    tasks.start_soon(self._work)
                if self._cancel is not None:
                    tasks.start_soon(self._heed, self._cancel)
                await self._drive()
            except anyio.get_cancelled_exc_class():
                tasks.cancel_scope.cancel()
                await self._cut_off()
                raise
            tasks.cancel_scope.cancel()
        if self._consuming.error is not None:
            raise self._consuming.error
        return self._consuming.consumed

    # The task that calls `run`

    async def _drive(self) -> None:
        while not isinstance(step := self._consuming.step(), Over):
            if isinstance(step, Wait):
                with anyio.move_on_after(step.seconds):
                    assert self._changed is not None
                    await self._changed.wait()
            elif isinstance(step, End):
                if self._consuming.is_stopping:
                    self._stream.stop()
                self._stream.end(step.stream_id)
            else:
                await self._ask(step)

    async def _ask(self, step: Step) -> None:
        try:
            await self._transport.carry_out(exchange_of(step, self._stream.protocol))
        except PenstockError as error:
            self._consuming.undone(step, error)
            return
        self._consuming.done(step)
        if isinstance(step, Commit) and self._progress is not None:
            try:
                await _awaited(self._progress(self._consuming.consumed))
            except Exception as error:  # noqa: BLE001 - it is raised when all has been brought to an end
                self._fail(error)

    async def _cut_off(self) -> None:
        """Commit what was handled, and give the partitions back, although the task is cancelled."""
        self._consuming.stop("cancelled", grace_s=0.0)
        with anyio.CancelScope(shield=True), anyio.move_on_after(CUT_OFF_S):
            await self._drive()

    def _fail(self, error: BaseException) -> None:
        self._consuming.fail(error)
        self._notify()

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = anyio.Event()

    async def _heed(self, cancel: AsyncCancel) -> None:
        await cancel.wait()
        self._consuming.stop("cancelled")
        self._notify()

    # The task that reads

    async def _read(self) -> None:
        try:
            while (news := await self._stream.advance()) is not None:
                if isinstance(news, StreamBegan):
                    self._consuming.began(news.stream_id)
                elif isinstance(news, StreamEnded):
                    self._consuming.ended(news.stream_id)
                else:
                    self._consuming.arrived(news)
                self._notify()
        except Exception as error:  # noqa: BLE001 - it is raised when all has been brought to an end
            self._fail(error)
        finally:
            self._stream.stop()
            with anyio.CancelScope(shield=True):
                await self._stream.reading.aclose()
            self._consuming.read_all()
            self._notify()

    # The tasks that handle

    async def _work(self) -> None:
        while (batch := await self._take()) is not None:
            try:
                await _checked(self._handler(batch))
            except _NotAsyncError as error:
                self._fail(error)
                self._consuming.handled(batch)
            except BaseException as error:
                if not isinstance(error, Exception | asyncio.CancelledError) or is_cancelled():
                    self._consuming.abandoned(batch)
                    self._notify()
                    raise
                await self._tell(batch, _as_exception(error))  # Whatever it is, the batch comes again.
                self._consuming.failed(batch)
            else:
                self._consuming.handled(batch)
            self._notify()

    async def _take(self) -> SubscriptionBatch[Any] | None:
        while (batch := self._consuming.next()) is None:
            if self._consuming.is_stopping:
                return None
            assert self._changed is not None
            await self._changed.wait()
        return batch

    async def _tell(self, batch: SubscriptionBatch[Any], error: Exception) -> None:
        try:
            await _awaited(self._on_error(batch, error))
        except Exception as raised:  # noqa: BLE001 - so whoever consumes says that it is to end
            self._fail(raised)


class _NotAsyncError(TypeError):
    pass


def _checked(returned: Awaitable[object]) -> Awaitable[object]:
    if not inspect.isawaitable(returned):
        raise _NotAsyncError("the handler is not async: have a Client consume")
    return returned


def _as_exception(error: Exception | asyncio.CancelledError) -> Exception:
    if isinstance(error, Exception):
        return error
    cancelled = RuntimeError("something that the handler has waited for was cancelled")
    cancelled.__cause__ = error
    return cancelled


async def _awaited(found: object) -> None:
    if inspect.isawaitable(found):
        await found
