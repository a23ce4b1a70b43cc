"""Consumers call a handler with each batch of a subscription: `Consumer` in threads, `AsyncConsumer` in tasks.

Both are written by hand and follow the steps of `consumer_state.py`. They do not come from one source, because threads
and tasks differ in what they can do: the threads of a `Consumer` share a condition, poll for Ctrl-C, and go on after a
deadline, since nothing can stop them; the tasks of an `AsyncConsumer` are cancelled.
"""

import asyncio
import inspect
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import isawaitable, iscoroutine
from typing import Any, Final

import anyio

from penstock.client.concurrency import AsyncCancel, Cancel, check_async_cancel, check_cancel, is_cancelled
from penstock.client.http.async_transport import AsyncTransport
from penstock.client.http.transport import Transport
from penstock.client.subscriptions.async_stream import AsyncSubscriptionStream
from penstock.client.subscriptions.consumer_state import (
    AsyncConsumerOptions,
    CommitBatches,
    Consumed,
    ConsumerOptions,
    ConsumerState,
    ConsumerStep,
    EndStream,
    Finished,
    Wait,
    exchange_of,
    make_consumer_parameters,
)
from penstock.client.subscriptions.stream import SubscriptionStream
from penstock.client.subscriptions.stream_protocol import StreamBegan, StreamEnded, SubscriptionBatch
from penstock.errors import PenstockError
from penstock.wire.arguments import check_callable

CANCELLED_INTERVAL: Final = 0.1
"""Seconds between two polls of `cancel`."""
LOOK_INTERVAL: Final = 1.0
"""Seconds between two points at which a waiting thread can be interrupted, where a signal alone does not wake it."""
CUT_OFF_TIMEOUT: Final = 5.0
"""Seconds for which a cancelled `AsyncConsumer` commits the batches that were handled."""


@contextmanager
def handle_interrupt(call: Callable[[], None]) -> Iterator[None]:
    """Call *call* on the first Ctrl-C within the block, between any two steps of the main thread.

    Later ones raise `KeyboardInterrupt` as usual. The block changes nothing in other threads, which Ctrl-C does not
    reach, or if SIGINT has another handler, such as that of `asyncio.run`.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came = False

    def handle(number: int, frame: Any) -> None:
        nonlocal came
        if came:
            signal.default_int_handler(number, frame)
        came = True
        call()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Consumer:
    """Calls a handler with each batch of a subscription, and commits the batches that it has handled.

    - Up to *workers* partitions are handled at a time, each in a thread. Batches of one partition are handled one at a
      time and in order, across streams too.
    - A batch is committed when its handler has returned. Batches that are handled meanwhile are committed together.
    - While handlers run, the stream's lease is extended, so slow handlers do not lose it.
    - If a handler raises, its batch is not committed, but the batches before it are. The stream is released and the
      next one begins at once: other partitions continue. The failed partition continues after a delay, which doubles
      from 0.1 seconds to `retry.max_delay_seconds`. The hub counts the failure: with the annotation
      `penstock/park-after-attempts` the subscription then sends the batch event by event, and parks the key of the
      event that keeps failing. Without it the batch is sent again without limit.
    - Parked events that are sent again arrive in batches of their own (`is_parked`).
    - Streams that end and connections that are lost are replaced, as `retry` allows.

    Every event is handled at least once: after a crash, or if the hub is unreachable while a handler runs, events are
    handled again.

    Args:
        transport, url, retry_timeout: The client's.
        subscription, handler, options: As for `Client.consumer`.
    """

    def __init__(
        self,
        transport: Transport,
        url: str,
        subscription: str | Mapping[str, Any],
        handler: Callable[[SubscriptionBatch[Any]], object],
        options: ConsumerOptions,
        *,
        retry_timeout: float,
    ) -> None:
        parameters, stream = make_consumer_parameters(options)
        check_callable("handler", handler)
        check_cancel(parameters.cancel)
        self._transport = transport
        self._stream: SubscriptionStream[Any] = SubscriptionStream(
            transport,
            url,
            subscription,
            stream,
            retry=parameters.retry,
            retry_timeout=retry_timeout,
            reconnect=True,
            kind=parameters.type,
        )
        self._state = ConsumerState(
            commit_timeout=stream.commit_timeout,
            grace_seconds=parameters.grace_seconds,
            retry_timeout=retry_timeout,
            delay_seconds_max=parameters.retry.max_delay_seconds,
            clock=time.monotonic,
        )
        self._handler = handler
        self._workers = parameters.workers
        self._cancel: Cancel | None = parameters.cancel
        self._on_error = parameters.on_error
        self._progress = parameters.progress
        self._changed = threading.Condition()
        self._is_interrupted = False
        self._ends = False

    @property
    def subscription_id(self) -> str | None:
        """The subscription's id; None until a subscription to be created is requested."""
        return self._stream.id

    @property
    def consumed(self) -> Consumed:
        """The totals so far."""
        return self._state.consumed

    @property
    def is_stopping(self) -> bool:
        """True once the consumer is stopping and calls no further handlers."""
        return self._state.is_stopping

    def stop(self) -> None:
        """Stop the consumer, from another thread, from the handler or from a signal handler."""
        with self._changed:
            self._state.stop("stopped")
            self._changed.notify_all()

    def run(self) -> Consumed:
        """Handle batches until the consumer is stopped; return the totals.

        After a stop no further handlers are called, running ones get the grace period to finish, handled batches are
        committed, and other consumers get the partitions at once. Ctrl-C stops the consumer in the same way, unless
        SIGINT has a handler of yours; a second Ctrl-C interrupts it at once.

        Raises:
            PenstockError: The subscription cannot be read or committed, and retrying does not help.
            Exception: An error that `on_error` or `progress` raised.
        """
        reader = threading.Thread(target=self._read, name="penstock-stream", daemon=True)
        workers = [
            threading.Thread(target=self._work, name=f"penstock-handler-{number}", daemon=True)
            for number in range(1, self._workers + 1)
        ]
        with handle_interrupt(self._interrupt):
            try:
                for thread in (reader, *workers):
                    thread.start()
                while not self._advance():
                    pass
            finally:
                with self._changed:
                    self._state.stop("interrupted")
                    self._ends = True
                    self._changed.notify_all()
                self._stream.stop()
                if reader.ident is not None:
                    reader.join(1.0)
        if self._state.error is not None:
            raise self._state.error
        return self._state.consumed

    # The thread that calls `run`

    def _interrupt(self) -> None:
        """Record the interruption; the step that runs in this thread completes first."""
        self._is_interrupted = True
        with self._changed:  # The lock of a condition is reentrant.
            self._changed.notify_all()

    def _advance(self) -> bool:
        """Do the next step; return whether it was the last."""
        with self._changed:
            if self._cancel is not None and self._cancel.is_set():
                self._state.stop("cancelled")
            if self._is_interrupted:
                self._state.stop("interrupted")
            step = self._state.next_step()
            if self._state.is_stopping:
                self._changed.notify_all()
            if isinstance(step, Wait):
                self._changed.wait(self._look_seconds(step))
                return False
        if isinstance(step, Finished):
            return True
        if isinstance(step, EndStream):
            self._stop_reading(step.stream_id)
        else:
            self._perform(step)
        return False

    def _look_seconds(self, wait: Wait) -> float:
        looks = LOOK_INTERVAL if self._cancel is None or self._state.is_stopping else CANCELLED_INTERVAL
        return looks if wait.seconds is None else min(looks, wait.seconds)

    def _stop_reading(self, stream_id: str) -> None:
        if self._state.is_stopping:
            self._stream.stop()
        self._stream.end(stream_id)

    def _perform(self, step: ConsumerStep) -> None:
        try:
            self._transport.carry_out(exchange_of(step, self._stream.protocol))
        except PenstockError as error:
            with self._changed:
                self._state.fail_step(step, error)
            return
        with self._changed:
            self._state.complete_step(step)
            consumed = self._state.consumed
        if isinstance(step, CommitBatches) and self._progress is not None:
            try:
                self._progress(consumed)
            except Exception as error:  # noqa: BLE001 - it is raised when all has been brought to an end
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._state.fail(error)
            self._changed.notify_all()

    # The thread that reads

    def _read(self) -> None:
        try:
            while (news := self._stream.advance()) is not None:
                with self._changed:
                    if isinstance(news, StreamBegan):
                        self._state.begin_stream(news.stream_id)
                    elif isinstance(news, StreamEnded):
                        self._state.end_stream(news.stream_id)
                    else:
                        self._state.add_batch(news)
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - it is raised when all has been brought to an end
            self._fail(error)
        finally:
            with self._changed:
                self._state.end_all_streams()
                self._changed.notify_all()

    # The threads that handle

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            error: BaseException | None = None
            try:
                self._check(self._handler(batch))
            except Exception as failure:  # noqa: BLE001 - whatever it is, the batch comes again
                error = failure
                self._report_failure(batch, failure)
            except BaseException as failure:  # noqa: BLE001 - it is raised when all has been brought to an end
                error = failure
                self._fail(failure)
            with self._changed:
                if error is None:
                    self._state.finish_batch(batch)
                else:
                    self._state.fail_batch(batch)
                self._changed.notify_all()

    def _take(self) -> SubscriptionBatch[Any] | None:
        with self._changed:
            while (batch := self._state.next()) is None:
                if self._state.is_stopping or self._ends:
                    return None
                self._changed.wait()
            return batch

    def _check(self, returned: object) -> None:
        """Fail if the handler returned an awaitable: its events would be committed without being handled."""
        if isawaitable(returned):
            self._fail(TypeError("the handler is async: have an AsyncClient consume"))
            if iscoroutine(returned):
                returned.close()
            raise TypeError("it has not been called")

    def _report_failure(self, batch: SubscriptionBatch[Any], error: Exception) -> None:
        try:
            self._on_error(batch, error)
        except BaseException as raised:  # noqa: BLE001 - the callback ends the consumer
            self._fail(raised)


class AsyncConsumer:
    """Calls an async handler with each batch of a subscription, and commits the handled batches; see `Consumer`.

    Handlers run in tasks. If the task that calls `run` is cancelled, so are they; handled batches are committed and the
    partitions are released.

    Args:
        transport, url, retry_timeout: The client's.
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
        retry_timeout: float,
    ) -> None:
        parameters, stream = make_consumer_parameters(options)
        check_callable("handler", handler)
        check_async_cancel(parameters.cancel)
        self._transport = transport
        self._stream: AsyncSubscriptionStream[Any] = AsyncSubscriptionStream(
            transport,
            url,
            subscription,
            stream,
            retry=parameters.retry,
            retry_timeout=retry_timeout,
            reconnect=True,
            kind=parameters.type,
        )
        self._state = ConsumerState(
            commit_timeout=stream.commit_timeout,
            grace_seconds=parameters.grace_seconds,
            retry_timeout=retry_timeout,
            delay_seconds_max=parameters.retry.max_delay_seconds,
            clock=time.monotonic,
        )
        self._handler = handler
        self._workers = parameters.workers
        self._cancel: AsyncCancel | None = parameters.cancel
        self._on_error = parameters.on_error
        self._progress = parameters.progress
        self._changed: anyio.Event | None = None

    @property
    def subscription_id(self) -> str | None:
        """The subscription's id; None until a subscription to be created is requested."""
        return self._stream.id

    @property
    def consumed(self) -> Consumed:
        """The totals so far."""
        return self._state.consumed

    @property
    def is_stopping(self) -> bool:
        """True once the consumer is stopping and calls no further handlers."""
        return self._state.is_stopping

    def stop(self) -> None:
        """Stop the consumer, from another task or from the handler; see `Consumer.stop`."""
        self._state.stop("stopped")
        self._notify()

    async def run(self) -> Consumed:
        """Handle batches until the consumer is stopped; return the totals. See `Consumer.run`."""
        self._changed = anyio.Event()
        async with anyio.create_task_group() as tasks:
            try:
                tasks.start_soon(self._read)
                for _ in range(self._workers):
                    tasks.start_soon(self._work)
                if self._cancel is not None:
                    tasks.start_soon(self._watch_cancel, self._cancel)
                await self._drive()
            except anyio.get_cancelled_exc_class():
                tasks.cancel_scope.cancel()
                await self._cut_off()
                raise
            tasks.cancel_scope.cancel()
        if self._state.error is not None:
            raise self._state.error
        return self._state.consumed

    # The task that calls `run`

    async def _drive(self) -> None:
        while not isinstance(step := self._state.next_step(), Finished):
            if isinstance(step, Wait):
                with anyio.move_on_after(step.seconds):
                    assert self._changed is not None
                    await self._changed.wait()
            elif isinstance(step, EndStream):
                if self._state.is_stopping:
                    self._stream.stop()
                self._stream.end(step.stream_id)
            else:
                await self._perform(step)

    async def _perform(self, step: ConsumerStep) -> None:
        try:
            await self._transport.carry_out(exchange_of(step, self._stream.protocol))
        except PenstockError as error:
            self._state.fail_step(step, error)
            return
        self._state.complete_step(step)
        if isinstance(step, CommitBatches) and self._progress is not None:
            try:
                await _await_if_needed(self._progress(self._state.consumed))
            except Exception as error:  # noqa: BLE001 - it is raised when all has been brought to an end
                self._fail(error)

    async def _cut_off(self) -> None:
        """Commit the handled batches and release the partitions although the task is cancelled."""
        self._state.stop("cancelled", grace_seconds=0.0)
        with anyio.CancelScope(shield=True), anyio.move_on_after(CUT_OFF_TIMEOUT):
            await self._drive()

    def _fail(self, error: BaseException) -> None:
        self._state.fail(error)
        self._notify()

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = anyio.Event()

    async def _watch_cancel(self, cancel: AsyncCancel) -> None:
        await cancel.wait()
        self._state.stop("cancelled")
        self._notify()

    # The task that reads

    async def _read(self) -> None:
        try:
            while (news := await self._stream.advance()) is not None:
                if isinstance(news, StreamBegan):
                    self._state.begin_stream(news.stream_id)
                elif isinstance(news, StreamEnded):
                    self._state.end_stream(news.stream_id)
                else:
                    self._state.add_batch(news)
                self._notify()
        except Exception as error:  # noqa: BLE001 - it is raised when all has been brought to an end
            self._fail(error)
        finally:
            self._stream.stop()
            with anyio.CancelScope(shield=True):
                await self._stream.reading.aclose()
            self._state.end_all_streams()
            self._notify()

    # The tasks that handle

    async def _work(self) -> None:
        while (batch := await self._take()) is not None:
            try:
                await _check_awaitable(self._handler(batch))
            except _NotAsyncError as error:
                self._fail(error)
                self._state.finish_batch(batch)
            except BaseException as error:
                if not isinstance(error, Exception | asyncio.CancelledError) or is_cancelled():
                    self._state.abandon_batch(batch)
                    self._notify()
                    raise
                await self._report_failure(batch, _make_exception(error))  # The batch is sent again after any error.
                self._state.fail_batch(batch)
            else:
                self._state.finish_batch(batch)
            self._notify()

    async def _take(self) -> SubscriptionBatch[Any] | None:
        while (batch := self._state.next()) is None:
            if self._state.is_stopping:
                return None
            assert self._changed is not None
            await self._changed.wait()
        return batch

    async def _report_failure(self, batch: SubscriptionBatch[Any], error: Exception) -> None:
        try:
            await _await_if_needed(self._on_error(batch, error))
        except Exception as raised:  # noqa: BLE001 - the callback ends the consumer
            self._fail(raised)


class _NotAsyncError(TypeError):
    pass


def _check_awaitable(returned: Awaitable[object]) -> Awaitable[object]:
    if not inspect.isawaitable(returned):
        raise _NotAsyncError("the handler is not async: have a Client consume")
    return returned


def _make_exception(error: Exception | asyncio.CancelledError) -> Exception:
    if isinstance(error, Exception):
        return error
    cancelled = RuntimeError("something that the handler has waited for was cancelled")
    cancelled.__cause__ = error
    return cancelled


async def _await_if_needed(found: object) -> None:
    if inspect.isawaitable(found):
        await found
