"""Choose the proxy of a request from the environment: one rule for every HTTP library.

Ways of our own HTTP clients to a server: directly, or through the proxy that the environment names.
"""

import ipaddress
import os
import ssl
import threading
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from penstock.errors import BadParameter, ConnectionLost, ProxyUnreachable, RequirementMissing, Unavailable, Unreachable

PORTS: Final = {"http": 80, "https": 443}
SYSTEM: Final = "the system's settings"
"""The source of a proxy on macOS and Windows that no variable names."""


class Proxy(NamedTuple):
    """A proxy, and the environment variable that names it."""

    url: str
    variable: str

    @property
    def shown(self) -> str:
        """The URL without a password.

        >>> Proxy("http://me:secret@proxy.example:3128", "HTTP_PROXY").shown
        'http://proxy.example:3128'
        """
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"


def proxy_for(url: str) -> Proxy | None:
    """Return the proxy through which *url* is asked; None: it is asked directly.

    HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name proxies, in lower case too. This machine is always asked directly, and so
    are the hosts and networks in NO_PROXY.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").removesuffix(".")
    proxies = getproxies()
    for kind in (parts.scheme, "all"):
        if named := proxies.get(kind):
            port = parts.port or PORTS.get(parts.scheme)
            if is_this_machine(host) or proxy_bypass(f"{host}:{port}") or _is_exempt(host, proxies.get("no", "")):
                return None
            return Proxy(named if "://" in named else f"http://{named}", _variable(f"{kind}_proxy"))
    return None


def connection_failure(url: str, reason: str, proxy: Proxy | None, *, is_unsent: bool) -> Unavailable:
    """Return what the failure of a connection means for a request to *url*, which went through *proxy*.

    Args:
        url: Of the request.
        reason: What the HTTP library says.
        proxy: Which one; None: none.
        is_unsent: Whether nothing of the request was sent.
    """
    if proxy is None:
        return (Unreachable if is_unsent else ConnectionLost)(url=url, reason=reason)
    if is_unsent:
        return ProxyUnreachable(url=url, reason=reason, proxy=proxy.shown, variable=proxy.variable)
    return ConnectionLost(url=url, reason=f"{reason}, through the proxy {proxy.shown} that {proxy.variable} names")


def is_this_machine(host: str) -> bool:
    """Return whether *host* is this machine: a loopback address, one that means any address, or `localhost`.

    Names that end in `.localhost` are loopback as well (RFC 6761, 6.3).

    >>> is_this_machine("hub.localhost"), is_this_machine("127.1.2.3"), is_this_machine("::1")
    (True, True, True)
    >>> is_this_machine("0.0.0.0"), is_this_machine("::ffff:127.0.0.1"), is_this_machine("127.example")
    (True, True, False)
    """
    address = _address(host)
    if address is None:
        return host == "localhost" or host.endswith(".localhost")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


def _is_exempt(host: str, no_proxy: str) -> bool:
    """Return whether *no_proxy* has `*`, a network of *host*, or its domain as `*.example.com`.

    `urllib` knows the rest: names of hosts and domains.
    """
    address = _address(host)
    for entry in no_proxy.split(","):
        name = entry.strip().lower()
        if name == "*":
            return True
        if address is None:
            if name.startswith("*.") and host.endswith(name[1:]):
                return True
            continue
        try:
            if address in ipaddress.ip_network(name.replace("[", "").replace("]", ""), strict=False):
                return True
        except ValueError:
            continue
    return False


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _variable(name: str) -> str:
    return next((each for each in (name, name.upper()) if os.environ.get(each)), SYSTEM)


PROXY: Final = "penstock.proxy"
"""The extension of a request that holds the proxy which it went through."""
Way = TypeVar("Way")


class Routes(httpx2.BaseTransport):
    """Sends each request on its way.

    Args:
        limits: Of the connections of each way.
    """

    def __init__(self, limits: httpx2.Limits) -> None:
        self._ways = _Ways(lambda proxy: httpx2.HTTPTransport(verify=tls(), limits=limits, proxy=proxy))

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send *request*.

        Raises:
            BadParameter, RequirementMissing: its proxy cannot be used; names the variable.
        """
        return self._ways.of(request).handle_request(request)

    def close(self) -> None:
        """Close all connections."""
        for way in self._ways.all():
            way.close()


class AsyncRoutes(httpx2.AsyncBaseTransport):
    """Sends each request on its way, asynchronously; see `Routes`."""

    def __init__(self, limits: httpx2.Limits) -> None:
        self._ways = _Ways(lambda proxy: httpx2.AsyncHTTPTransport(verify=tls(), limits=limits, proxy=proxy))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send *request*; see `Routes`."""
        return await self._ways.of(request).handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        for way in self._ways.all():
            await way.aclose()


@cache
def tls() -> ssl.SSLContext:
    """Return the TLS settings that all clients of this process share.

    To load the certificate authorities takes 25 ms of processor time, each time.
    """
    return httpx2.create_ssl_context()


class _Ways(Generic[Way]):
    """The ways that requests have taken; the environment is read once for each server."""

    def __init__(self, make: Callable[[str | None], Way]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._proxies: dict[tuple[str, str, int | None], Proxy | None] = {}
        self._ways: dict[str | None, Way] = {}

    def of(self, request: httpx2.Request) -> Way:
        url = request.url
        server = (url.scheme, url.host, url.port)
        with self._lock:
            if server not in self._proxies:
                self._proxies[server] = _usable(proxy_for(str(url)), url.host)
            proxy = self._proxies[server]
            request.extensions[PROXY] = proxy
            named = None if proxy is None else proxy.url
            if named not in self._ways:
                self._ways[named] = self._make(named)
            return self._ways[named]

    def all(self) -> list[Way]:
        with self._lock:
            return list(self._ways.values())


def _usable(proxy: Proxy | None, host: str) -> Proxy | None:
    """Return *proxy*, through which *host* is asked.

    Raises:
        BadParameter, RequirementMissing: it cannot be used; names its variable.
    """
    if proxy is None:
        return None
    try:
        scheme = httpx2.Proxy(proxy.url).url.scheme
    except (ValueError, httpx2.InvalidURL):
        allowed = f"the address of a proxy: http://, https://, socks5:// or socks5h://; or have {host} in NO_PROXY"
        raise BadParameter(parameter=proxy.variable, value=proxy.shown, allowed=allowed) from None
    if scheme.startswith("socks") and find_spec("socksio") is None:
        install = f"pip install 'httpx2[socks]', unset {proxy.variable}, or name {host} in NO_PROXY"
        raise RequirementMissing(needed=f"socksio, for the proxy {proxy.shown},", found="none", install=install)
    return proxy
