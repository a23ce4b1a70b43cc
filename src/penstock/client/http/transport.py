# Generated from async_transport.py by scripts/generate_sync_clients.py: do not edit.
"""Carries out exchanges with a synchronous HTTP client."""

from collections.abc import Callable, Iterator
from typing import Any, Generic

import httpx2

from penstock.client.concurrency import (
    Events,
    each,
    open_events,
    shield,
    sleep,
    take,
)
from penstock.client.credentials import make_auth
from penstock.client.http import adapter
from penstock.client.http.adapter import ExchangeSteps
from penstock.client.http.proxy_transport import ProxyTransport
from penstock.errors import BadParameter
from penstock.wire.http import Exchange, HttpRequest, Pause, ReaderItem, ResponseHead, T, TakeEvents


class Transport:
    """An HTTP client that carries out any number of exchanges, from several threads too.

    Args:
        http: The user's client; None creates one, which `close` closes.
        auth: The credential that the created client sends: see `Client`.
        log: Called with each pause.
    """

    def __init__(self, http: Any = None, *, auth: Any = None, log: Callable[[Pause], None] = adapter.log_pause) -> None:
        if http is not None and not callable(getattr(http, "build_request", None)):
            raise BadParameter(parameter="http", value=http, allowed="an httpx2.Client")
        adapter.check_auth(http, auth)
        self.given = http, auth
        """The user's client and credential, as they were given."""
        self._log = log
        self._own: httpx2.Client | None = None
        if http is None:
            self._own = httpx2.Client(
                **adapter.SETTINGS, auth=make_auth(auth), transport=ProxyTransport(adapter.LIMITS)
            )
        self.http: Any = http if self._own is None else self._own

    def carry_out(self, exchange: Exchange[T], events: Events = ()) -> T:
        """Carry out *exchange* and return its result. It takes the events to publish from *events*."""
        talk = ExchangeRun(self.http, exchange, events, log=self._log)
        try:
            while talk.advance() is not None:
                pass
            return talk.outcome
        finally:
            talk.close()

    def close(self) -> None:
        """Close the HTTP client, unless it is the user's."""
        if self._own is not None:
            self._own.close()


class ExchangeRun(Generic[T]):
    """A run of one exchange; one thread at a time may advance it.

    Args:
        http: The HTTP client.
        exchange: The exchange.
        events: The events that it publishes.
        log: Called with each pause.
        sleep: Wait for a number of seconds.
        is_over: Return whether to stop before the next step.
    """

    def __init__(
        self,
        http: Any,
        exchange: Exchange[T],
        events: Events = (),
        *,
        log: Callable[[Pause], None] = adapter.log_pause,
        sleep: Callable[[float], object] = sleep,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._http = http
        self._log = log
        self._sleep = sleep
        self._is_over = is_over
        self._steps = ExchangeSteps(exchange)
        self._events = open_events(events)
        self._chunks: Iterator[bytes] = each(())
        self.response: Any = None
        """The response of the HTTP library that is being read; None between two requests."""

    @property
    def outcome(self) -> T:
        """The result of the exchange, once it has ended."""
        return self._steps.outcome

    def advance(self) -> Any:
        """Run to the next item for the reader and return it; None when the exchange has ended or is to stop."""
        while not self._is_over() and (effect := self._steps.next_effect()) is not None:
            if isinstance(effect, ReaderItem):
                return effect
            self._steps.succeed(self._perform(effect))
        return None

    def close(self) -> None:
        """Abort the exchange and close its response."""
        self._close_response()
        self._steps.close()

    def _perform(self, effect: Any) -> Any:
        match effect:
            case Pause():
                self._log(effect)
                self._sleep(effect.seconds)
                return None
            case TakeEvents(count):
                return take(self._events, count)
        try:
            return self._open(effect) if isinstance(effect, HttpRequest) else self._read_chunk()
        except BaseException as error:  # noqa: BLE001 - it raises again what is no failure of the connection
            self._close_response()
            self._steps.fail(error)
            return None

    def _open(self, request: HttpRequest) -> ResponseHead:
        self._close_response()
        self.response = self._http.send(adapter.build_request(self._http, request), stream=True)
        self._chunks = self.response.iter_bytes()
        return adapter.head_of(self.response)

    def _read_chunk(self) -> bytes:
        for chunk in self._chunks:
            if chunk:
                return chunk
        return b""

    def _close_response(self) -> None:
        if self.response is not None:
            response, self.response = self.response, None
            with shield():  # A cancelled task must still release the connection.
                response.close()
