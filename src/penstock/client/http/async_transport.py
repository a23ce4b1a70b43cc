"""Does the I/O that protocol code asks for, with an asynchronous HTTP client."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic

import httpx2

from penstock.client.concurrency import AsyncEvents, async_each, async_shielded, async_sleep
from penstock.client.http import adapter
from penstock.client.http.adapter import Steps
from penstock.client.http.proxy_transport import AsyncRoutes
from penstock.wire.http import END, Exchange, Handed, Head, Pause, Request, T, Take


class AsyncTransport:
    """An HTTP client, by which any number of exchanges are carried out, from several tasks too.

    Args:
        http: The user's client; None for one of our own, which `aclose` closes.
        log: Tells of pauses.
    """

    def __init__(self, http: Any = None, *, log: Callable[[Pause], None] = adapter.log) -> None:
        self._log = log
        self._own: httpx2.AsyncClient | None = None
        if http is None:
            self._own = httpx2.AsyncClient(**adapter.SETTINGS, transport=AsyncRoutes(adapter.LIMITS))
        self.http: Any = http if self._own is None else self._own

    async def carry_out(self, exchange: Exchange[T], events: AsyncEvents = ()) -> T:
        """Carry out *exchange* to its end, publishing *events* where it takes them; return what it comes to."""
        talk = AsyncTalk(self.http, exchange, events, log=self._log)
        try:
            while await talk.advance() is not None:
                pass
            return talk.outcome
        finally:
            await talk.aclose()

    async def aclose(self) -> None:
        """Close the HTTP client, if it is our own."""
        if self._own is not None:
            await self._own.aclose()


class AsyncTalk(Generic[T]):
    """One exchange that is being carried out; one task at a time may advance it.

    Args:
        http: The HTTP client.
        exchange: The protocol code.
        events: What it publishes.
        log: Tells of pauses.
        sleep: Lets time pass.
        is_over: Says whether to stop before the next step.
    """

    def __init__(
        self,
        http: Any,
        exchange: Exchange[T],
        events: AsyncEvents = (),
        *,
        log: Callable[[Pause], None] = adapter.log,
        sleep: Callable[[float], Awaitable[object]] = async_sleep,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._http = http
        self._log = log
        self._sleep = sleep
        self._is_over = is_over
        self._steps = Steps(exchange)
        self._events = async_each(events)
        self._chunks: AsyncIterator[bytes] = async_each(())
        self.response: Any = None
        """The HTTP client's answer that is being read; None between two requests."""

    @property
    def outcome(self) -> T:
        """What the exchange came to, once it has ended."""
        return self._steps.outcome

    async def advance(self) -> Any:
        """Go on to what is handed to the reader next and return it; None when the exchange has ended or is to stop."""
        while not self._is_over() and (effect := self._steps.following()) is not None:
            if isinstance(effect, Handed):
                return effect
            self._steps.done(await self._perform(effect))
        return None

    async def aclose(self) -> None:
        """Give up what is open."""
        await self._hang_up()
        self._steps.close()

    async def _perform(self, effect: Any) -> Any:
        match effect:
            case Pause():
                self._log(effect)
                await self._sleep(effect.seconds)
                return None
            case Take():
                return await anext(self._events, END)
        try:
            return await (self._open(effect) if isinstance(effect, Request) else self._more())
        except BaseException as error:  # noqa: BLE001 - it raises again what is no failure of the connection
            await self._hang_up()
            self._steps.failed(error)
            return None

    async def _open(self, request: Request) -> Head:
        await self._hang_up()
        self.response = await self._http.send(adapter.build(self._http, request), stream=True)
        self._chunks = self.response.aiter_bytes()
        return adapter.head(self.response)

    async def _more(self) -> bytes:
        async for chunk in self._chunks:
            if chunk:
                return chunk
        return b""

    async def _hang_up(self) -> None:
        if self.response is not None:
            response, self.response = self.response, None
            with async_shielded():  # Whoever is cancelled must still give the connection back.
                await response.aclose()
