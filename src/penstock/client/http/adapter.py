"""What the synchronous and the asynchronous client share below HTTP.

`Closing` and `AsyncClosing` close a client at the end of a `with` block. `Steps` walks through an exchange and does no
I/O. The rest are the settings, headers and waits of our own HTTP clients, and the meaning of their exceptions, which
are recognized by the names of their classes, so that a user may hand in any client of httpx's kind, older ones too.
"""

import logging
from typing import Any, Final, Generic

import httpx2

from penstock import __version__
from penstock.client.http.proxies import Proxy, connection_failure
from penstock.client.http.proxy_transport import PROXY
from penstock.errors import ConnectionLost, PenstockError, Unavailable
from penstock.wire.http import Exchange, Head, Pause, Request, T

SETTINGS: Final[dict[str, Any]] = {
    # Packing and unpacking costs more than the bytes do where hub and reader are near each other.
    "headers": {"accept-encoding": "identity", "user-agent": f"penstock/{__version__}"},
    "timeout": httpx2.Timeout(60.0, connect=10.0),
    "follow_redirects": True,
}
"""Of a client that we make ourselves. A user's client is used as it is."""
# An idle connection is let go before servers close theirs (uvicorn: 5 s): no publish must run into a closed one.
LIMITS: Final = httpx2.Limits(max_connections=100, keepalive_expiry=3.0)
"""Of the connections of such a client."""
ANSWER_MARGIN_SECONDS: Final = 15.0
"""What an answer may take beyond the wait that was asked for."""

_UNSENT: Final = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError"})
_FAILED: Final = frozenset({"TransportError", "DecodingError"})
_MISUSED: Final = frozenset({"UnsupportedProtocol", "LocalProtocolError"})
_log: Final = logging.getLogger("penstock.client")


def build(http: Any, request: Request) -> Any:
    """Return *request* as the library of the client *http* has it."""
    built = http.build_request(request.method, request.url, headers=dict(request.headers), content=request.body)
    timeout = built.extensions.get("timeout", {})
    if request.timeout is not None:
        limits = {name: min(request.timeout, timeout.get(name) or request.timeout) for name in ("connect", "pool")}
        built.extensions = {
            **built.extensions,
            "timeout": {**limits, "read": request.timeout, "write": request.timeout},
        }
    if request.wait_seconds and timeout.get("read") is not None:
        timeout = {**timeout, "read": max(timeout["read"], request.wait_seconds + ANSWER_MARGIN_SECONDS)}
        built.extensions = {**built.extensions, "timeout": timeout}
    return built


def head(response: Any) -> Head:
    """Return the head of the library's *response*."""
    return Head(response.status_code, {name.lower(): value for name, value in response.headers.items()})


def failure(error: Exception, url: str) -> Unavailable | None:
    """Return what *error* means for the request to *url*; None when it is no failure of the connection.

    >>> type(failure(httpx2.ConnectError("refused"), "http://hub")).__name__
    'Unreachable'
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    if names.isdisjoint(_FAILED) or not names.isdisjoint(_MISUSED):
        return None
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    meaning = connection_failure(url, reason, _proxy_of(error), is_unsent=not names.isdisjoint(_UNSENT))
    meaning.__cause__ = error
    return meaning


def _proxy_of(error: Exception) -> Proxy | None:
    """Return the proxy that a request of a client of our own went through."""
    request = getattr(error, "_request", None)
    return None if request is None else request.extensions.get(PROXY)


def log(pause: Pause) -> None:
    """Tell the log what a pause is for, where something has failed."""
    if pause.because is not None:
        _log.warning("%s; trying again in %.1f s", pause.because.detail, pause.seconds)


class Steps(Generic[T]):
    """An exchange under way.

    An interruption (a cancelled task, Ctrl-C) is raised to whoever interrupted; should they come back for the next
    step, the exchange is told that its answer was lost.
    """

    outcome: T
    """What the exchange came to, once it has ended."""

    def __init__(self, exchange: Exchange[T]) -> None:
        self._exchange = exchange
        self._result: Any = None
        self._lost: PenstockError | None = None
        self._url = ""

    def following(self) -> Any:
        """Return the next effect; None when the exchange has ended.

        Raises:
            PenstockError: what the exchange has failed with.
        """
        result, lost = self._result, self._lost
        self._result = self._lost = None
        try:
            effect = self._exchange.send(result) if lost is None else self._exchange.throw(lost)
        except StopIteration as stop:
            self.outcome = stop.value
            return None
        if isinstance(effect, Request):
            self._url = effect.url
        return effect

    def done(self, result: Any) -> None:
        """Take note of what came of the effect."""
        self._result = result

    def failed(self, error: BaseException) -> None:
        """Take note that a request or the reading of its answer has failed; raise what is no such failure."""
        self._lost = failure(error, self._url) if isinstance(error, Exception) else None
        if self._lost is None:
            self._lost = ConnectionLost(url=self._url, reason="the reader was interrupted")
            raise error

    def close(self) -> None:
        """Give the exchange up."""
        self._exchange.close()
