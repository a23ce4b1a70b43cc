"""Reads that many requests share: a cached figure that is expensive to compute, and a read that waiters coalesce."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

Figure = TypeVar("Figure")
SHARE: Final = 20
"""Computing a figure takes at most 1/`SHARE` of the time."""


class CachedFigure(Generic[Figure]):
    """Computes a figure for one request at a time, and keeps it for some seconds to answer others.

    Args:
        compute: Computes the figure in a worker thread, and returns None if that is impossible.
        interval: Seconds in which the figure is not computed again. A figure that takes long to compute is kept for
            longer: see `SHARE`.
        timeout: Seconds that a request waits for the figure at most.
        kept_seconds: A request whose wait has timed out gets the figure before, if that is no older.
    """

    def __init__(
        self,
        compute: Callable[[], Awaitable[Figure | None]],
        *,
        interval: float = 0.0,
        timeout: float,
        kept_seconds: float = 0.0,
    ) -> None:
        self._compute = compute
        self._interval = interval
        self._timeout = timeout
        self._kept_seconds = kept_seconds
        self._computing: asyncio.Future[Figure | None] | None = None
        self._figure: Figure | None = None
        self._computed_at = self._due_at = float("-inf")

    async def get(self) -> Figure | None:
        """Return the figure; None if it cannot be computed now."""
        computing = self._computing
        if computing is not None and computing.get_loop() is not asyncio.get_running_loop():
            computing = None  # An application may be served again, by another loop.
        if computing is None and time.monotonic() >= self._due_at:
            computing = self._computing = asyncio.ensure_future(self._refresh())
        if computing is None:
            return self._figure
        await asyncio.wait({computing}, timeout=self._timeout)
        is_usable = computing.done() or time.monotonic() - self._computed_at < self._kept_seconds
        return self._figure if is_usable else None

    async def _refresh(self) -> Figure | None:
        began = time.monotonic()
        figure: Figure | None = None
        try:
            figure = await self._compute()
        finally:
            now = time.monotonic()
            self._computing, self._figure, self._computed_at = None, figure, now
            self._due_at = began + max(self._interval, SHARE * (now - began)) if figure is not None else now
        return figure


class CoalescedRead:
    """Calls *read* once for all tasks that wait for it.

    A task that begins to wait during a read gets the next one, which is current. Reads follow each other; *interval*
    is the least number of seconds from the beginning of one to that of the next.
    """

    def __init__(self, read: Callable[[], Awaitable[object]], interval: float) -> None:
        self._read = read
        self._interval = interval
        self._next: asyncio.Future[None] | None = None
        """The read that has not begun: tasks that begin to wait now wait for it."""
        self._last: asyncio.Future[None] | None = None
        self._began_at = float("-inf")

    async def wait(self) -> None:
        """Wait for a read that begins after this call; raise its errors."""
        awaited = self._next
        if awaited is None or awaited.done() or awaited.get_loop() is not asyncio.get_running_loop():
            awaited = self._next = self._last = asyncio.ensure_future(self._read_after(self._last))
            awaited.add_done_callback(lambda each: each.cancelled() or each.exception())  # All waiters may be gone.
        await asyncio.shield(awaited)

    async def _read_after(self, before: asyncio.Future[None] | None) -> None:
        if before is not None and not before.done() and before.get_loop() is asyncio.get_running_loop():
            await asyncio.wait({before})
        await asyncio.sleep(max(0.0, self._began_at + self._interval - time.monotonic()))
        self._next, self._began_at = None, time.monotonic()
        await self._read()
