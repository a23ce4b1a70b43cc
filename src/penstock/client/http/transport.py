# Generated from async_transport.py by scripts/generate_sync_clients.py: do not edit.
"""Does the I/O that protocol code asks for, with a synchronous HTTP client."""

from collections.abc import Callable, Iterator
from typing import Any, Generic

import httpx2

from penstock.client.concurrency import Events, each, shielded, sleep
from penstock.client.http import adapter
from penstock.client.http.adapter import Steps
from penstock.client.http.proxy_transport import Routes
from penstock.wire.http import END, Exchange, Handed, Head, Pause, Request, T, Take


class Transport:
    """An HTTP client, by which any number of exchanges are carried out, from several threads too.

    Args:
        http: The user's client; None for one of our own, which `close` closes.
        log: Tells of pauses.
    """

    def __init__(self, http: Any = None, *, log: Callable[[Pause], None] = adapter.log) -> None:
        self._log = log
        self._own: httpx2.Client | None = None
        if http is None:
            self._own = httpx2.Client(**adapter.SETTINGS, transport=Routes(adapter.LIMITS))
        self.http: Any = http if self._own is None else self._own

    def carry_out(self, exchange: Exchange[T], events: Events = ()) -> T:
        """Carry out *exchange* to its end, publishing *events* where it takes them; return what it comes to."""
        talk = Talk(self.http, exchange, events, log=self._log)
        try:
            while talk.advance() is not None:
                pass
            return talk.outcome
        finally:
            talk.close()

    def close(self) -> None:
        """Close the HTTP client, if it is our own."""
        if self._own is not None:
            self._own.close()


class Talk(Generic[T]):
    """One exchange that is being carried out; one thread at a time may advance it.

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
        events: Events = (),
        *,
        log: Callable[[Pause], None] = adapter.log,
        sleep: Callable[[float], object] = sleep,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._http = http
        self._log = log
        self._sleep = sleep
        self._is_over = is_over
        self._steps = Steps(exchange)
        self._events = each(events)
        self._chunks: Iterator[bytes] = each(())
        self.response: Any = None
        """The HTTP client's answer that is being read; None between two requests."""

    @property
    def outcome(self) -> T:
        """What the exchange came to, once it has ended."""
        return self._steps.outcome

    def advance(self) -> Any:
        """Go on to what is handed to the reader next and return it; None when the exchange has ended or is to stop."""
        while not self._is_over() and (effect := self._steps.following()) is not None:
            if isinstance(effect, Handed):
                return effect
            self._steps.done(self._perform(effect))
        return None

    def close(self) -> None:
        """Give up what is open."""
        self._hang_up()
        self._steps.close()

    def _perform(self, effect: Any) -> Any:
        match effect:
            case Pause():
                self._log(effect)
                self._sleep(effect.seconds)
                return None
            case Take():
                return next(self._events, END)
        try:
            return self._open(effect) if isinstance(effect, Request) else self._more()
        except BaseException as error:  # noqa: BLE001 - it raises again what is no failure of the connection
            self._hang_up()
            self._steps.failed(error)
            return None

    def _open(self, request: Request) -> Head:
        self._hang_up()
        self.response = self._http.send(adapter.build(self._http, request), stream=True)
        self._chunks = self.response.iter_bytes()
        return adapter.head(self.response)

    def _more(self) -> bytes:
        for chunk in self._chunks:
            if chunk:
                return chunk
        return b""

    def _hang_up(self) -> None:
        if self.response is not None:
            response, self.response = self.response, None
            with shielded():  # Whoever is cancelled must still give the connection back.
                response.close()
