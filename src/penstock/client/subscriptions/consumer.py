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
    Commit,
    Consumed,
    ConsumerOptions,
    Consuming,
    End,
    Over,
    Step,
    Wait,
    check_callable,
    consumer_wish,
    exchange_of,
)
from penstock.client.subscriptions.stream import SubscriptionStream
from penstock.client.subscriptions.stream_protocol import StreamBegan, StreamEnded, SubscriptionBatch
from penstock.errors import PenstockError

CANCELLED_INTERVAL: Final = 0.1
"""Seconds between two polls of `cancel`."""
LOOK_INTERVAL: Final = 1.0
"""Seconds between two points at which a waiting thread can be interrupted, where a signal alone does not wake it."""
CUT_OFF_TIMEOUT: Final = 5.0
"""Seconds for which a cancelled `AsyncConsumer` commits the batches that were handled."""


@contextmanager
def interrupts(call: Callable[[], None]) -> Iterator[None]:
    """Within the block, have the first Ctrl-C *call*, between any two steps of the thread that is in the block.

    Further ones raise `KeyboardInterrupt` as ever. Nothing changes in threads other than the main one, which Ctrl-C
    does not reach, and where SIGINT has a handler of somebody else, who has decided what it does (as `asyncio.run`).
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came = False

    def heed(number: int, frame: Any) -> None:
        nonlocal came
        if came:
            signal.default_int_handler(number, frame)
        came = True
        call()

    signal.signal(signal.SIGINT, heed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Consumer:
    """Has a handler called with each batch of a subscription, and commits what it has handled.

    - Up to *workers* partitions are handled at a time, each in a thread. Batches of one partition are handled one after
      the other, in their order, across streams too: never two at once.
    - A batch is committed when its handler has returned; what is handled meanwhile goes with one request.
    - While handlers are busy the stream's lease is extended, so a slow handler loses nothing.
    - A handler that raises: its batch is not committed, and what was handled before it is. The stream is given back,
      and the next one begins at once: other partitions go on there, or finish what they were sent before. The partition
      that failed comes again after a pause, which doubles from 0.1 s to `retry.max_delay_seconds`. The hub counts it:
      where the subscription has the annotation `penstock/park-after-attempts`, the batch comes event by event after so
      many failures, and the key of the one that goes on failing is parked; without, it comes again for ever.
    - Parked events that are sent again come as batches of their own (`is_parked`).
    - Streams that end and connections that are lost are replaced, as `retry` says.

    Every event is handled at least once: a crash, or a hub that is gone while a handler runs, has events handled again.

    Args:
        transport, url, retry_timeout: Of the client.
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
        wish, stream = consumer_wish(options)
        check_callable("handler", handler)
        check_cancel(wish.cancel)
        self._transport = transport
        self._stream: SubscriptionStream[Any] = SubscriptionStream(
            transport,
            url,
            subscription,
            stream,
            retry=wish.retry,
            retry_timeout=retry_timeout,
            reconnect=True,
            kind=wish.type,
        )
        self._consuming = Consuming(
            commit_timeout=stream.commit_timeout,
            grace_seconds=wish.grace_seconds,
            retry_timeout=retry_timeout,
            delay_seconds_max=wish.retry.max_delay_seconds,
            clock=time.monotonic,
        )
        self._handler = handler
        self._workers = wish.workers
        self._cancel: Cancel | None = wish.cancel
        self._on_error = wish.on_error
        self._progress = wish.progress
        self._changed = threading.Condition()
        self._is_interrupted = False
        self._ends = False

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
        """Have it end, from another thread or from the handler: see `run`."""
        with self._changed:
            self._consuming.stop("stopped")
            self._changed.notify_all()

    def run(self) -> Consumed:
        """Handle batches until it is stopped; return how far it has come.

        No handler is begun then, those that run may end within `grace_seconds`, what was handled is committed, and
        others have the partitions at once. Ctrl-C stops it so, too, where SIGINT has no handler of yours; a second one
        ends it where it is.

        Raises:
            PenstockError: the subscription cannot be read or committed, and to try again does not help.
            Exception: what `on_error` or `progress` has raised.
        """
        reader = threading.Thread(target=self._read, name="penstock-stream", daemon=True)
        workers = [
            threading.Thread(target=self._work, name=f"penstock-handler-{number}", daemon=True)
            for number in range(1, self._workers + 1)
        ]
        with interrupts(self._interrupt):
            try:
                for thread in (reader, *workers):
                    thread.start()
                while not self._advance():
                    pass
            finally:
                with self._changed:
                    self._consuming.stop("interrupted")
                    self._ends = True
                    self._changed.notify_all()
                self._stream.stop()
                if reader.ident is not None:
                    reader.join(1.0)
        if self._consuming.error is not None:
            raise self._consuming.error
        return self._consuming.consumed

    # The thread that calls `run`

    def _interrupt(self) -> None:
        """Note that it is to stop: what is half done just now in this thread goes on first."""
        self._is_interrupted = True
        with self._changed:  # A condition may be used again by the thread that has it.
            self._changed.notify_all()

    def _advance(self) -> bool:
        """Do the next step; tell whether it was the last."""
        with self._changed:
            if self._cancel is not None and self._cancel.is_set():
                self._consuming.stop("cancelled")
            if self._is_interrupted:
                self._consuming.stop("interrupted")
            step = self._consuming.step()
            if self._consuming.is_stopping:
                self._changed.notify_all()
            if isinstance(step, Wait):
                self._changed.wait(self._look_seconds(step))
                return False
        if isinstance(step, Over):
            return True
        if isinstance(step, End):
            self._stop_reading(step.stream_id)
        else:
            self._ask(step)
        return False

    def _look_seconds(self, wait: Wait) -> float:
        looks = LOOK_INTERVAL if self._cancel is None or self._consuming.is_stopping else CANCELLED_INTERVAL
        return looks if wait.seconds is None else min(looks, wait.seconds)

    def _stop_reading(self, stream_id: str) -> None:
        if self._consuming.is_stopping:
            self._stream.stop()
        self._stream.end(stream_id)

    def _ask(self, step: Step) -> None:
        try:
            self._transport.carry_out(exchange_of(step, self._stream.protocol))
        except PenstockError as error:
            with self._changed:
                self._consuming.undone(step, error)
            return
        with self._changed:
            self._consuming.done(step)
            consumed = self._consuming.consumed
        if isinstance(step, Commit) and self._progress is not None:
            try:
                self._progress(consumed)
            except Exception as error:  # noqa: BLE001 - it is raised when all has been brought to an end
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._consuming.fail(error)
            self._changed.notify_all()

    # The thread that reads

    def _read(self) -> None:
        try:
            while (news := self._stream.advance()) is not None:
                with self._changed:
                    if isinstance(news, StreamBegan):
                        self._consuming.began(news.stream_id)
                    elif isinstance(news, StreamEnded):
                        self._consuming.ended(news.stream_id)
                    else:
                        self._consuming.arrived(news)
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - it is raised when all has been brought to an end
            self._fail(error)
        finally:
            with self._changed:
                self._consuming.read_all()
                self._changed.notify_all()

    # The threads that handle

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            error: BaseException | None = None
            try:
                self._check(self._handler(batch))
            except Exception as failure:  # noqa: BLE001 - whatever it is, the batch comes again
                error = failure
                self._tell(batch, failure)
            except BaseException as failure:  # noqa: BLE001 - it is raised when all has been brought to an end
                error = failure
                self._fail(failure)
            with self._changed:
                if error is None:
                    self._consuming.handled(batch)
                else:
                    self._consuming.failed(batch)
                self._changed.notify_all()

    def _take(self) -> SubscriptionBatch[Any] | None:
        with self._changed:
            while (batch := self._consuming.next()) is None:
                if self._consuming.is_stopping or self._ends:
                    return None
                self._changed.wait()
            return batch

    def _check(self, returned: object) -> None:
        """Refuse what an async function returns: were it committed, its events would never be handled."""
        if isawaitable(returned):
            self._fail(TypeError("the handler is async: have an AsyncClient consume"))
            if iscoroutine(returned):
                returned.close()
            raise TypeError("it has not been called")

    def _tell(self, batch: SubscriptionBatch[Any], error: Exception) -> None:
        try:
            self._on_error(batch, error)
        except BaseException as raised:  # noqa: BLE001 - so whoever consumes says that it is to end
            self._fail(raised)


class AsyncConsumer:
    """Has an async handler called with each batch of a subscription, and commits what it has handled; see `Consumer`.

    Handlers are tasks. Where the task that runs it is cancelled, so are they; what was handled is committed all the
    same, and the partitions are given back.

    Args:
        transport, url, retry_timeout: Of the client.
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
        wish, stream = consumer_wish(options)
        check_callable("handler", handler)
        check_async_cancel(wish.cancel)
        self._transport = transport
        self._stream: AsyncSubscriptionStream[Any] = AsyncSubscriptionStream(
            transport,
            url,
            subscription,
            stream,
            retry=wish.retry,
            retry_timeout=retry_timeout,
            reconnect=True,
            kind=wish.type,
        )
        self._consuming = Consuming(
            commit_timeout=stream.commit_timeout,
            grace_seconds=wish.grace_seconds,
            retry_timeout=retry_timeout,
            delay_seconds_max=wish.retry.max_delay_seconds,
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
        self._consuming.stop("cancelled", grace_seconds=0.0)
        with anyio.CancelScope(shield=True), anyio.move_on_after(CUT_OFF_TIMEOUT):
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
