"""`Client.consume` and `AsyncClient.consume`: a processor of a subscription, for as long as a program runs."""

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from penstock.client.concurrency import AsyncCancel, Cancel, check_async_cancel, check_cancel
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.errors import BadParameter
from penstock.processing.engine.rules import Rules
from penstock.processing.event_handler import Terminated, end_on_signals, to_handler
from penstock.processing.handlers import Classify, Handler
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.sources.subscription import SubscriptionSource
from penstock.processing.together import Together

COMMIT_INTERVAL: Final = 1.0


class ConsumeOptions(NamedTuple):
    """Options of consuming a subscription: see `Client.consume`."""

    rules: Rules | None
    classify: Classify | None
    batch_limit: int
    batch_flush_timeout: float
    max_uncommitted_events: int
    commit_timeout: int
    partitions: Collection[FeedPartition]


def consume_subscription(
    url: str,
    subscription: str | Mapping[str, Any],
    handler: Callable[..., Any] | Together,
    options: ConsumeOptions,
    *,
    http: Any,
    auth: Any,
    cancel: Cancel | None,
) -> None:
    """Handle the events of a subscription until *cancel* is set, Ctrl-C or SIGTERM: see `Client.consume`."""
    check_cancel(cancel)
    try:
        with (
            end_on_signals() as signals,
            _make_processor(url, subscription, handler, options, http=http, auth=auth) as processor,
        ):
            signals.wait(processor, (lambda: False) if cancel is None else cancel.is_set)
    except (Terminated, KeyboardInterrupt):
        return


async def async_consume_subscription(
    url: str,
    subscription: str | Mapping[str, Any],
    handler: Callable[..., Any] | Together,
    options: ConsumeOptions,
    *,
    http: Any,
    auth: Any,
    cancel: AsyncCancel | None,
) -> None:
    """Handle the events of a subscription until *cancel* is set or the task is cancelled: see `AsyncClient.consume`."""
    check_async_cancel(cancel)
    if http is not None:
        allowed = "an AsyncClient that was made with auth, and not with http: its connections cannot be used in threads"
        raise BadParameter(parameter="http", value=type(http).__name__, allowed=allowed)
    loop = asyncio.get_running_loop()
    processor = await asyncio.to_thread(_make_processor, url, subscription, handler, options, auth=auth, loop=loop)
    over = asyncio.Event()
    waiting = threading.Thread(target=_notify_end, args=(processor, loop, over), name="penstock-consume", daemon=True)
    ends: list[asyncio.Future[Any]] = [asyncio.ensure_future(over.wait())]
    try:
        processor.start()
        waiting.start()
        if cancel is not None:
            ends.append(asyncio.ensure_future(_await_cancel(cancel)))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        processor.grace_seconds = 0.0  # Cancelling the task cancels its handlers too.
        raise
    finally:
        for each in ends:
            each.cancel()
        await _stop(processor)


async def _stop(processor: LocalProcessor) -> None:
    """Stop a processor; a cancellation meanwhile takes effect after it has ended and committed its progress."""
    stopping = asyncio.ensure_future(asyncio.to_thread(processor.stop))
    try:
        await asyncio.shield(stopping)
    except asyncio.CancelledError:
        processor.grace_seconds = 0.0
        await asyncio.wait([stopping])
        raise


async def _await_cancel(cancel: AsyncCancel) -> None:
    await cancel.wait()


def _notify_end(processor: LocalProcessor, loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    processor.wait()
    with suppress(RuntimeError):  # The loop is closed: no task waits.
        loop.call_soon_threadsafe(over.set)


def _make_processor(
    url: str,
    subscription: str | Mapping[str, Any],
    handler: Callable[..., Any] | Together,
    options: ConsumeOptions,
    *,
    auth: Any,
    http: Any = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> LocalProcessor:
    handles: Handler | Together = handler if isinstance(handler, Together) else to_handler(handler)
    source = SubscriptionSource(
        url, subscription, http=http, auth=auth, batch_limit=options.batch_limit,
        batch_flush_timeout=options.batch_flush_timeout, max_uncommitted_events=options.max_uncommitted_events,
        commit_timeout=options.commit_timeout, partitions=options.partitions,
    )  # fmt: skip
    try:
        rules = options.rules
        if rules is None:
            attempts = source.park_after_attempts()
            rules = Rules() if attempts is None else Rules(attempts_max=attempts, exhausted="park")
        return LocalProcessor(
            handles, source, rules=rules, classify=options.classify, commit_interval=COMMIT_INTERVAL, loop=loop
        )
    except BaseException:
        source.close()
        source.close()  # The second time lets go of the connections.
        raise
