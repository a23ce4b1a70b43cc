"""Does the I/O that protocol code asks for, with an asynchronous HTTP client."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Any, Generic, TypeAlias

import anyio
import httpx2

from penstock.client.http import library as http_library
from penstock.client.http.library import Steps
from penstock.client.http.routes import AsyncRoutes
from penstock.wire.http import END, Exchange, Handed, Head, Pause, Request, T, Take

Events: TypeAlias = Iterable[Any] | AsyncIterable[Any]


class AsyncTransport:
    """An asynchronous HTTP client, by which any number of exchanges are carried out at one time.

    Args:
        http: The user's client; None for one of our own, which `aclose` closes.
        log: Tells of pauses.
    """

    def __init__(self, http: Any = None, *, log: Callable[[Pause], None] = http_library.log) -> None:
        self._log = log
        self._own: httpx2.AsyncClient | None = None
        if http is None:
            self._own = httpx2.AsyncClient(**http_library.SETTINGS, transport=AsyncRoutes(http_library.LIMITS))
        self.http: Any = http if self._own is None else self._own

    async def carry_out(self, exchange: Exchange[T], events: Events = ()) -> T:
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
    """

    def __init__(
        self,
        http: Any,
        exchange: Exchange[T],
        events: Events = (),
        *,
        log: Callable[[Pause], None] = http_library.log,
    ) -> None:
        self._http = http
        self._log = log
        self._steps = Steps(exchange)
        self._events = _each(events)
        self._response: Any = None
        self._chunks: AsyncIterator[bytes] = _each(())

    @property
    def outcome(self) -> T:
        """What the exchange came to, once it has ended."""
        return self._steps.outcome

    async def advance(self) -> Any:
        """Go on to what is handed to the reader next and return it; None when the exchange has ended."""
        while (effect := self._steps.following()) is not None:
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
                await anyio.sleep(effect.seconds)
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
        self._response = await self._http.send(http_library.build(self._http, request), stream=True)
        self._chunks = self._response.aiter_bytes()
        return http_library.head(self._response)

    async def _more(self) -> bytes:
        async for chunk in self._chunks:
            if chunk:
                return chunk
        return b""

    async def _hang_up(self) -> None:
        if self._response is not None:
            response, self._response = self._response, None
            # A cancelled task must still give its connection back.
            with anyio.CancelScope(shield=True):
                await response.aclose()


async def _each(events: Events) -> AsyncIterator[Any]:
    if isinstance(events, AsyncIterable):
        async for event in events:
            yield event
    else:
        for event in events:
            yield event
