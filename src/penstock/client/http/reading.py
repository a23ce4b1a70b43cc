"""Readers of an exchange that another thread, or another task, can end."""

import socket
import threading
from contextlib import suppress
from typing import Any, Final

import anyio

from penstock.client.http.async_transport import AsyncExchangeRun
from penstock.client.http.transport import ExchangeRun
from penstock.errors import PenstockError
from penstock.wire.http import Exchange

INTERRUPTED_SECONDS: Final = 1.0
"""Seconds that `close` waits for a thread that was interrupted."""


class ExchangeReader:
    """Reads the items of an exchange one by one.

    An interruption such as Ctrl-C loses no items: the next `advance` continues. All methods except `advance` may be
    called from other threads than the reading one, and from a signal handler.

    Args:
        http: The HTTP client.
        exchange: The exchange.
    """

    def __init__(self, http: Any, exchange: Exchange[None]) -> None:
        self._over = threading.Event()
        self._turn = threading.Lock()
        self._talk = ExchangeRun(http, exchange, sleep=self._over.wait, is_over=self._over.is_set)
        self._is_stopped = False

    def advance(self) -> Any:
        """Return the next item; None at the end, or if the reader was ended."""
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
        """Break off the response that is being read: the exchange gets a lost connection.

        It does nothing if no response is being read, or if the HTTP client does not expose its socket.
        """
        response = self._talk.response
        stream = None if response is None else response.extensions.get("network_stream")
        connection = None if stream is None else stream.get_extra_info("socket")
        if connection is not None:
            with suppress(OSError):  # The socket may be closed.
                connection.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End after the current request, which is not interrupted."""
        self._over.set()

    def stop(self) -> None:
        """End, and break off the response that is being read."""
        self._is_stopped = True
        self._over.set()
        self.interrupt()

    def close(self) -> None:
        """Release the connection; a thread that is still reading releases it itself."""
        if self._turn.acquire(timeout=INTERRUPTED_SECONDS if self._is_stopped else 0.0):
            try:
                self._talk.close()
            finally:
                self._turn.release()


class AsyncExchangeReader:
    """Reads the items of an exchange one by one.

    A cancellation takes effect at once and loses no items: the next `advance` continues. All methods except `advance`
    may be called from other tasks than the reading one.

    Args:
        http: The HTTP client.
        exchange: The exchange.
    """

    def __init__(self, http: Any, exchange: Exchange[None]) -> None:
        self._talk = AsyncExchangeRun(http, exchange)
        self._under_way: anyio.CancelScope | None = None
        self._is_over = False

    async def advance(self) -> Any:
        """Return the next item; None at the end, or if the reader was ended."""
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
        """Break off the response that is being read: the exchange gets a lost connection."""
        if self._under_way is not None:
            self._under_way.cancel()

    def end(self) -> None:
        """End, and break off the current request."""
        self._is_over = True
        self.interrupt()

    def stop(self) -> None:
        """End, and break off the response that is being read."""
        self.end()

    async def aclose(self) -> None:
        """Release the connection; a task that is still reading releases it itself."""
        if self._under_way is None:
            await self._talk.aclose()
