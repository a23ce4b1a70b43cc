"""Transports for httpx that choose the proxy of each request from the environment; see `proxies`."""

import os
import ssl
import threading
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Final, Generic, TypeVar

import httpx2

from penstock.client.http.proxies import Proxy, proxy_for
from penstock.errors import BadParameter, RequirementMissing

PROXY: Final = "penstock.proxy"
"""Request extension with the proxy that the request used."""
CLOSED_MEANWHILE: Final = "the client was closed while it waited for the answer"
_AUTHORITIES: Final = {
    "SSL_CERT_FILE": "a file with certificates in PEM",
    "SSL_CERT_DIR": "a folder with certificates, named as `openssl rehash` does",
}
"""Environment variables that name the certificate authorities to trust."""
Way = TypeVar("Way")


class ProxyTransport(httpx2.BaseTransport):
    """Sends each request directly or through its proxy.

    Args:
        limits: Connection limits of each proxy.
    """

    def __init__(self, limits: httpx2.Limits) -> None:
        self._ways = _Connections(lambda proxy: httpx2.HTTPTransport(verify=tls_context(), limits=limits, proxy=proxy))

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send *request*.

        Raises:
            BadParameter, RequirementMissing: The proxy cannot be used; the error names its environment variable.
        """
        response = self._ways.of(request).handle_request(request)
        if self._ways.is_closed:  # Its connection may have been opened too late for `close` to see it.
            response.close()
            raise httpx2.ConnectError(CLOSED_MEANWHILE, request=request)
        return response

    def close(self) -> None:
        """Close all connections, those that another thread is opening too."""
        for way in self._ways.close():
            way.close()


class AsyncProxyTransport(httpx2.AsyncBaseTransport):
    """Sends each request directly or through its proxy; see `ProxyTransport`."""

    def __init__(self, limits: httpx2.Limits) -> None:
        self._ways = _Connections(
            lambda proxy: httpx2.AsyncHTTPTransport(verify=tls_context(), limits=limits, proxy=proxy)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send *request*; see `ProxyTransport`."""
        response = await self._ways.of(request).handle_async_request(request)
        if self._ways.is_closed:  # Its connection may have been opened too late for `aclose` to see it.
            await response.aclose()
            raise httpx2.ConnectError(CLOSED_MEANWHILE, request=request)
        return response

    async def aclose(self) -> None:
        """Close all connections, those that another task is opening too."""
        for way in self._ways.close():
            await way.aclose()


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS settings, shared by all clients of this process.

    Loading the certificate authorities takes 25 ms of processor time.

    Raises:
        BadParameter: See `_trust_environment`.
    """
    return _trust_environment() or httpx2.create_ssl_context()


class _Connections(Generic[Way]):
    """The transports in use, one for each proxy; the environment is read once for each server."""

    def __init__(self, make: Callable[[str | None], Way]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._proxies: dict[tuple[str, str, int | None], Proxy | None] = {}
        self._ways: dict[str | None, Way] = {}
        self.is_closed = False

    def of(self, request: httpx2.Request) -> Way:
        url = request.url
        server = (url.scheme, url.host, url.port)
        with self._lock:
            if server not in self._proxies:
                self._proxies[server] = _require_usable(proxy_for(str(url)), url.host)
            proxy = self._proxies[server]
            request.extensions[PROXY] = proxy
            named = None if proxy is None else proxy.url
            if named not in self._ways:
                self._ways[named] = self._make(named)
            return self._ways[named]

    def close(self) -> list[Way]:
        """Note that it is closed, and return what is to be closed."""
        with self._lock:
            self.is_closed = True
            return list(self._ways.values())


def _require_usable(proxy: Proxy | None, host: str) -> Proxy | None:
    """Return *proxy*, if it can be used for requests to *host*.

    Raises:
        BadParameter, RequirementMissing: It cannot be used; the error names its environment variable.
    """
    if proxy is None:
        return None
    try:
        scheme = httpx2.Proxy(proxy.url).url.scheme
    except (ValueError, httpx2.InvalidURL):
        allowed = f"the address of a proxy: http://, https://, socks5:// or socks5h://; or have {host} in NO_PROXY"
        raise BadParameter(parameter=proxy.variable, value=proxy.without_password, allowed=allowed) from None
    if scheme.startswith("socks") and find_spec("socksio") is None:
        install = f"pip install 'httpx2[socks]', unset {proxy.variable}, or name {host} in NO_PROXY"
        raise RequirementMissing(
            needed=f"socksio, for the proxy {proxy.without_password},", found="none", install=install
        )
    return proxy


def _trust_environment() -> ssl.SSLContext | None:
    """Return TLS settings that trust the authorities in SSL_CERT_FILE, else SSL_CERT_DIR; None if neither is set.

    Raises:
        BadParameter: The variable names something else; the error names it.
    """
    places = {variable: os.environ.get(variable) for variable in _AUTHORITIES}
    variable = next((name for name, place in places.items() if place), None)
    if variable is None:
        return None
    try:
        if variable == "SSL_CERT_FILE":
            return ssl.create_default_context(cafile=places[variable])
        return ssl.create_default_context(capath=places[variable])
    except OSError as error:  # An SSLError is one.
        reason = str(error) if isinstance(error, ssl.SSLError) else error.strerror
        allowed = f"{_AUTHORITIES[variable]}: {reason}"
        raise BadParameter(parameter=variable, value=places[variable], allowed=allowed) from error
