"""Primitives that differ between threads and tasks, each for the synchronous and for the asynchronous client.

A module that holds both forms of a class or function is written by hand: this one, `http/reading.py` and
`producers/turns.py`. The other synchronous modules are generated from the asynchronous
ones, see `scripts/generate_sync_clients.py`.
"""

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import iscoroutinefunction
from itertools import islice
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias

from penstock.errors import BadParameter

Events: TypeAlias = Iterable[Any]
AsyncEvents: TypeAlias = Iterable[Any] | AsyncIterable[Any]
_END: Final = object()
sleep: Final = time.sleep
each: Final = iter
open_events: Final = iter
_COMPLETE: Final[tuple[type, ...]] = (type(iter([])), type(iter(())))
"""Iterators over events that exist already. Others, such as generators, may change an event that they have yielded."""


def take(events: Iterator[Any], count: int) -> list[Any]:
    """Return the next of *events*, at most *count*, and none only at their end.

    Events that are made while they are taken are returned one by one.
    """
    return list(islice(events, count if type(events) in _COMPLETE else 1))


async def async_sleep(seconds: float) -> None:
    """Sleep in a task."""
    import anyio  # Not at the top: Spark's executors have none, and need the synchronous half of this module.

    await anyio.sleep(seconds)


async def async_each(events: AsyncEvents) -> AsyncIterator[Any]:
    """Yield each of *events*."""
    if isinstance(events, AsyncIterable):
        async for event in events:
            yield event
    else:
        for event in events:
            yield event


def async_open_events(events: AsyncEvents) -> Iterator[Any] | AsyncIterator[Any]:
    """Return an iterator over *events*."""
    return aiter(events) if isinstance(events, AsyncIterable) else iter(events)


async def async_take(events: Iterator[Any] | AsyncIterator[Any], count: int) -> list[Any]:
    """Return the next of *events*, at most *count*; see `take`."""
    if not isinstance(events, AsyncIterator):
        return take(events, count)
    event = await anext(events, _END)
    return [] if event is _END else [event]


def shield(seconds: float = math.inf) -> AbstractContextManager[None]:  # noqa: ARG001 - as of `async_shield`
    """Return a context manager that does nothing: a thread cannot be cancelled."""
    return nullcontext()


@contextmanager
def async_shield(seconds: float = math.inf) -> Iterator[None]:
    """Protect the block from cancellation of the task for up to *seconds*; then leave the block."""
    import anyio

    with anyio.CancelScope(shield=True), anyio.move_on_after(seconds):
        yield


class Closing(ABC):
    """Context manager that closes itself at the end of a `with` block, however the block ends."""

    @abstractmethod
    def close(self) -> object:
        """Release the resources that it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClosing(ABC):
    """Context manager that closes itself at the end of an `async with` block, however the block ends."""

    @abstractmethod
    async def aclose(self) -> object:
        """Release the resources that it holds."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Cancel(Protocol):
    """Signal that cancels a call or stops a consumer, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the signal was given."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the signal is given, for at most *timeout* seconds."""


class AsyncCancel(Protocol):
    """Signal that cancels a call or stops a consumer, such as an `asyncio.Event` or an `anyio.Event`."""

    def is_set(self) -> bool:
        """Return whether the signal was given."""

    async def wait(self) -> object:
        """Wait until the signal is given."""


def check_cancel(signal: object) -> None:
    """Raise BadParameter unless *signal* is a `Cancel` or None; an asynchronous one could not be awaited."""
    wait = getattr(signal, "wait", None)
    if signal is not None and (not callable(wait) or iscoroutinefunction(wait)):
        raise BadParameter(parameter="cancel", value=type(signal).__name__, allowed="a threading.Event")


def check_async_cancel(signal: object) -> None:
    """Raise BadParameter unless *signal* is an `AsyncCancel` or None."""
    if signal is not None and not iscoroutinefunction(getattr(signal, "wait", None)):
        allowed = "an asyncio.Event or anyio.Event: anything else would block the event loop"
        raise BadParameter(parameter="cancel", value=type(signal).__name__, allowed=allowed)


def is_cancelled() -> bool:
    """Return whether the current task is being cancelled; if not, an awaited object raised the CancelledError."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
