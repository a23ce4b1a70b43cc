"""How asynchronous clients wait; `waiting` has the same for synchronous ones. Both are written by hand."""

import math
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import anyio

AsyncEvents: TypeAlias = Iterable[Any] | AsyncIterable[Any]

async_sleep: Final = anyio.sleep


@contextmanager
def async_shielded(seconds: float = math.inf) -> Iterator[None]:
    """Within the block, ignore a cancellation of the task for up to so many *seconds*; leave the block after them."""
    with anyio.CancelScope(shield=True), anyio.move_on_after(seconds):
        yield


async def async_each(events: AsyncEvents) -> AsyncIterator[Any]:
    """Yield each of *events*."""
    if isinstance(events, AsyncIterable):
        async for event in events:
            yield event
    else:
        for event in events:
            yield event
