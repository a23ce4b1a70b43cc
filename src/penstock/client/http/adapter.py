"""Adapter between exchanges, which do no I/O, and HTTP clients with the interface of httpx.

`ExchangeSteps` steps through an exchange. The functions build the library's requests and translate its exceptions,
which are recognized by the names of their classes, so that a user may pass any such client, older versions too.
"""

import logging
from typing import Any, Final, Generic

import httpx2

from penstock import __version__
from penstock.client.http.proxies import Proxy, connection_failure
from penstock.client.http.proxy_transport import PROXY
from penstock.errors import BadParameter, ConnectionLost, PenstockError, Unavailable
from penstock.wire.http import Exchange, HttpRequest, Pause, ResponseHead, T

SETTINGS: Final[dict[str, Any]] = {
    # Compression costs more time than it saves between a hub and a reader that are near each other.
    "headers": {"accept-encoding": "identity", "user-agent": f"penstock/{__version__}"},
    "timeout": httpx2.Timeout(60.0, connect=10.0),
    "follow_redirects": True,
}
"""Settings of HTTP clients that Penstock creates. A client that the user passes is used as it is."""
# Idle connections are closed before servers close them (uvicorn: 5 s): no publish may use a closed one.
LIMITS: Final = httpx2.Limits(max_connections=100, keepalive_expiry=3.0)
"""Connection limits of these HTTP clients."""
ANSWER_MARGIN_SECONDS: Final = 15.0
"""Seconds that a response may take beyond the requested `wait`."""

_UNSENT: Final = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError"})
_FAILED: Final = frozenset({"TransportError", "DecodingError"})
_MISUSED: Final = frozenset({"UnsupportedProtocol", "LocalProtocolError"})
_log: Final = logging.getLogger("penstock.client")


def check_auth(http: Any, auth: Any) -> None:
    """Raise BadParameter if there are a client and a credential: a client has its own."""
    if http is not None and auth is not None:
        detail = "auth goes without http: give the credential to the HTTP client, httpx2.Client(auth=...)"
        raise BadParameter(detail, parameter="auth", allowed="either http or auth")


def build_request(http: Any, request: HttpRequest) -> Any:
    """Return *request* as a request of the library of the client *http*."""
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


def head_of(response: Any) -> ResponseHead:
    """Return the status and headers of the library's *response*."""
    return ResponseHead(response.status_code, {name.lower(): value for name, value in response.headers.items()})


def failure_of(error: Exception, url: str) -> Unavailable | None:
    """Return the error that the library's *error* means for the request to *url*; None if the connection did not fail.

    >>> type(failure_of(httpx2.ConnectError("refused"), "http://hub")).__name__
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
    """Return the proxy that the failed request used."""
    request = getattr(error, "_request", None)
    return None if request is None else request.extensions.get(PROXY)


def log_pause(pause: Pause) -> None:
    """Log the failure that a pause follows."""
    if pause.because is not None:
        _log.warning("%s; trying again in %.1f s", pause.because.detail, pause.seconds)


class ExchangeSteps(Generic[T]):
    """The steps of an exchange.

    An interruption (a cancelled task, Ctrl-C) is raised to the caller. If the caller continues, the exchange gets a
    lost connection as the result of the interrupted step.
    """

    outcome: T
    """The result of the exchange, once it has ended."""

    def __init__(self, exchange: Exchange[T]) -> None:
        self._exchange = exchange
        self._result: Any = None
        self._lost: PenstockError | None = None
        self._url = ""

    def next_effect(self) -> Any:
        """Return the next effect; None when the exchange has ended.

        Raises:
            PenstockError: The exchange has failed.
        """
        result, lost = self._result, self._lost
        self._result = self._lost = None
        try:
            effect = self._exchange.send(result) if lost is None else self._exchange.throw(lost)
        except StopIteration as stop:
            self.outcome = stop.value
            return None
        if isinstance(effect, HttpRequest):
            self._url = effect.url
        return effect

    def succeed(self, result: Any) -> None:
        """Set the result of the current effect."""
        self._result = result

    def fail(self, error: BaseException) -> None:
        """Set *error* as the failure of a request or of reading its response; raise it if it is not one."""
        self._lost = failure_of(error, self._url) if isinstance(error, Exception) else None
        if self._lost is None:
            self._lost = ConnectionLost(url=self._url, reason="the reader was interrupted")
            raise error

    def close(self) -> None:
        """Abort the exchange."""
        self._exchange.close()
