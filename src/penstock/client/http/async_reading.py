"""Reads what an exchange brings, until another task ends that; `reading` has it for threads. Written by hand."""

from typing import Any

import anyio

from penstock.client.http.async_transport import AsyncTalk
from penstock.errors import PenstockError
from penstock.wire.http import Exchange


class AsyncReading:
    """What an exchange brings, one thing after the other.

    A cancellation takes effect at once and loses nothing: the next `advance` goes on. All but `advance` may be called
    from other tasks than the one that reads.

    Args:
        http: The HTTP client.
        exchange: The protocol code.
    """

    def __init__(self, http: Any, exchange: Exchange[None]) -> None:
        self._talk = AsyncTalk(http, exchange)
        self._under_way: anyio.CancelScope | None = None
        self._is_over = False

    async def advance(self) -> Any:
        """Return what comes next; None: nothing follows, or it was ended."""
        news = None
        interrupted = True
        try:
            while interrupted and not self._is_over:
                with anyio.CancelScope() as self._under_way:
                    news = await self._talk.advance()
                interrupted = self._under_way.cancelled_caught
        except PenstockError:
            await self._talk.aclose()
            raise
        finally:
            self._under_way = None
        if news is None:
            await self._talk.aclose()
        return news

    def interrupt(self) -> None:
        """Break off the answer that is being read: to the exchange its connection is lost."""
        if self._under_way is not None:
            self._under_way.cancel()

    def end(self) -> None:
        """Bring nothing more."""
        self._is_over = True
        self.interrupt()

    def stop(self) -> None:
        """Bring nothing more, and break off the answer that is being read."""
        self.end()

    async def aclose(self) -> None:
        """Let go of the connection; a task that still reads does so itself."""
        if self._under_way is None:
            await self._talk.aclose()
