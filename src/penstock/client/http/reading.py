"""Readers of an exchange that another thread or task can end: `Reading` for threads, `AsyncReading` for tasks."""

import socket
import threading
from contextlib import suppress
from typing import Any, Final

import anyio

from penstock.client.http.async_transport import AsyncTalk
from penstock.client.http.transport import Talk
from penstock.errors import PenstockError
from penstock.wire.http import Exchange

INTERRUPTED_SECONDS: Final = 1.0
"""For so long a reading that is closed waits for a thread that was interrupted."""


class Reading:
    """What an exchange brings, one thing after the other.

    An interruption such as Ctrl-C loses nothing: the next `advance` goes on. All but `advance` may be called from other
    threads than the one that reads, and from a signal handler.

    Args:
        http: The HTTP client.
        exchange: The protocol code.
    """

    def __init__(self, http: Any, exchange: Exchange[None]) -> None:
        self._over = threading.Event()
        self._turn = threading.Lock()
        self._talk = Talk(http, exchange, sleep=self._over.wait, is_over=self._over.is_set)
        self._is_stopped = False

    def advance(self) -> Any:
        """Return what comes next; None: nothing follows, or it was ended."""
        with self._turn:
            try:
                news = self._talk.advance()
            except PenstockError:
                self._talk.close()
                raise
            if news is None:
                self._talk.close()
            return news

    def interrupt(self) -> None:
        """Break off the answer that is being read: to the exchange its connection is lost.

        Harmless where nothing is being read, and without effect where the HTTP client does not say what it reads from.
        """
        response = self._talk.response
        stream = None if response is None else response.extensions.get("network_stream")
        connection = None if stream is None else stream.get_extra_info("socket")
        if connection is not None:
            with suppress(OSError):  # It may be closed by now.
                connection.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Bring nothing more; a request under way lasts as long as it lasts."""
        self._over.set()

    def stop(self) -> None:
        """Bring nothing more, and break off the answer that is being read."""
        self._is_stopped = True
        self._over.set()
        self.interrupt()

    def close(self) -> None:
        """Let go of the connection; a thread that still reads does so itself."""
        if self._turn.acquire(timeout=INTERRUPTED_SECONDS if self._is_stopped else 0.0):
            try:
                self._talk.close()
            finally:
                self._turn.release()


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
