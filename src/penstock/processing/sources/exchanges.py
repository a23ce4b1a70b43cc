"""Carries out what is asked of a hub in an event loop of its own, so that what waits can be broken off."""

import asyncio
import threading
import time
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from penstock.client.credentials import make_auth
from penstock.client.http import adapter
from penstock.client.http.async_transport import AsyncTransport
from penstock.errors import Unavailable
from penstock.wire.http import Exchange, Pause

R = TypeVar("R")


class Exchanges:
    """Exchanges that any thread can have carried out, any number at a time, until `close`.

    A hub that is away is said once for all of them, until the pause is over that was said.

    Args:
        http: An `httpx2.AsyncClient` of the user's, which stays his to close; None for one of our own.
        auth: The credential that our own sends: see `Client`.

    Raises:
        BadParameter: there are both.
    """

    def __init__(self, http: Any = None, auth: Any = None) -> None:
        adapter.check_auth(http, auth)
        self._http = http
        self._auth = make_auth(auth)
        self._transport: AsyncTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._turn = threading.Lock()
        self._is_over = False
        self._told_until = 0.0

    @property
    def is_over(self) -> bool:
        """Whether all is closed."""
        return self._is_over

    def begin(self, exchange: Exchange[R]) -> "Future[R]":
        """Begin with an exchange, and return what will hold what it comes to.

        Raises:
            Unavailable: all is closed.
        """
        with self._turn:
            if self._is_over:
                raise Unavailable(reason="the source is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-exchanges", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(self._carried_out(exchange), self._loop)

    def carry_out(self, exchange: Exchange[R]) -> R:
        """Carry out an exchange, and return what it comes to.

        Raises:
            Unavailable: all was closed meanwhile.
        """
        return result_of(self.begin(exchange))

    def close(self) -> None:
        """Break off what is under way, and end."""
        with self._turn:
            self._is_over, loop, self._loop = True, self._loop, None
        if loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    async def _carried_out(self, exchange: Exchange[R]) -> R:
        if self._transport is None:
            self._transport = AsyncTransport(self._http, auth=self._auth, log=self._log)
        return await self._transport.carry_out(exchange)

    def _log(self, pause: Pause) -> None:
        now = time.monotonic()
        if pause.because is not None and now >= self._told_until:
            self._told_until = now + pause.seconds
            adapter.log_pause(pause)

    async def _end(self) -> None:
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        if self._transport is not None:
            await self._transport.aclose()


def result_of(future: "Future[R]") -> R:
    """Return what an exchange has come to.

    Raises:
        Unavailable: all was closed meanwhile.
    """
    try:
        return future.result()
    except CancelledError:
        raise Unavailable(reason="the source is closed") from None
