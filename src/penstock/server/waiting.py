"""Waits without a thread: for events, and for a client's leaving.

One task listens for the client's leaving; waiting and sending are raced against it. Starlette's own streaming would
notice only when a send fails, which a wait never does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.types import Receive

from penstock.hub.watch import Watch
from penstock.server.eager import begun

LOOK_S: Final = 1.0
"""How often it is asked whether something is still wanted that takes long to be sent."""
Leaving = asyncio.Future[None]
"""Done once the client has left."""


def leaving(receive: Receive) -> Leaving:
    """Begin to listen for the client's leaving; to be cancelled in the end."""
    return asyncio.ensure_future(_left(receive))


async def unless(left: Leaving, sending: Awaitable[Any], seconds: float | None = None) -> bool:
    """Await *sending*; False, and leave it, when the client leaves first, or when it takes longer than *seconds*."""
    task = begun(sending)
    try:
        if not task.done():
            await asyncio.wait({task, left}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return _sent(task, left)
    finally:
        task.cancel()


async def while_wanted(left: Leaving, sending: Awaitable[bool], is_wanted: Callable[[], Awaitable[bool]]) -> bool:
    """Await *sending*, which tells whether it has sent something, as `unless` does.

    False, too, once it *is_wanted* no more, which is asked every `LOOK_S`.
    """
    task = begun(sending)
    either: set[asyncio.Future[Any]] = {task, left}
    try:
        while not task.done():
            await asyncio.wait(either, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and (left.done() or not await is_wanted()):
                break
        return _sent(task, left) and task.result()
    finally:
        task.cancel()


async def something_new(
    watch: Watch, offsets: Mapping[int, int], seconds: float, left: Leaving, allowed: Callable[[], None]
) -> bool:
    """Wait until there may be something at *offsets*, which are by partition id.

    False: time is up, the client is gone, or the hub is stopping. *allowed* raises when whoever waits may not read.

    Raises:
        Blocked: what was allowed when the wait began is so no more.
    """
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, woken)

    ticket = watch.wait(offsets, wake)
    try:
        allowed()  # From here on it wakes when that changes.
        await asyncio.wait({woken, left}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watch.cancel(ticket)
    allowed()
    return woken.done() and not left.done() and not watch.draining


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _sent(task: "asyncio.Future[Any]", left: Leaving) -> bool:
    """Tell whether something was sent to who is still there."""
    if not task.done():
        return False
    try:
        task.result()
    except OSError:
        return False  # How a server tells that the client is gone (ASGI 2.4).
    return not left.done()  # Sending to one who has left ends at once too, on servers that keep to older ASGI.


def _settle(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
