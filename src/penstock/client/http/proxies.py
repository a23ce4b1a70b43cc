"""Choose the proxy of a request from the environment: one rule for every HTTP library."""

import ipaddress
import os
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from penstock.core.hosts import is_this_machine, parse_ip
from penstock.errors import ConnectionLost, Unavailable, Unreachable

PORTS: Final = {"http": 80, "https": 443}
_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"
"""The reason that OpenSSL gives for a certificate that it cannot verify."""
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""The reasons that versions of OpenSSL give for an answer in plain text."""
_NO_ANSWER: Final = "without"
"""In the reasons of HTTP libraries for a server that has closed the connection before it has answered anything."""
SPEAKS_NO_TLS: Final = "The server there speaks no TLS: begin the address with http://."
MAY_SPEAK_TLS: Final = "if the hub there speaks TLS, its address begins with https://"
"""Part of the reason, not a hint: it is logged with each attempt to connect again, which can go on for minutes."""
REFUSES_BY_TLS: Final = (
    "The server ends the TLS handshake, for instance since it refuses the certificate of this client: its log says why."
)
_ALERT: Final = "_ALERT_"
"""In the reasons of OpenSSL for what the other side has refused."""
_RENEW: Final = "Renew the certificate of the server, or correct the clock of this machine."
_CERTIFICATE_HINTS: Final[Mapping[str, str]] = {
    "certificate is not valid for": (
        "Name the server in the address as its certificate does, or give it a certificate for this name."
    ),
    "certificate has expired": _RENEW,
    "certificate is not yet valid": _RENEW,
}
"""By what OpenSSL says of a certificate: what to do, where trusting another authority would not help."""
SYSTEM: Final = "the system's settings"
"""The source of a proxy on macOS and Windows that no variable names."""


class Proxy(NamedTuple):
    """A proxy, and the environment variable that names it."""

    url: str
    variable: str

    @property
    def without_password(self) -> str:
        """The URL without a password.

        >>> Proxy("http://me:secret@proxy.example:3128", "HTTP_PROXY").without_password
        'http://proxy.example:3128'
        """
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"


def proxy_for(url: str) -> Proxy | None:
    """Return the proxy for requests to *url*; None for a direct connection.

    HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name proxies, in lower case too. Connections to this machine, and to hosts and
    networks in NO_PROXY, are direct.
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
    """Return the error for a failed connection of a request to *url*.

    Args:
        url: The address.
        reason: The message of the HTTP library.
        proxy: The proxy that the request used, if any.
        is_unsent: True if nothing of the request was sent.
    """
    if _UNTRUSTED in reason:
        untrusted = Unreachable.of("certificate-untrusted", url=url, reason=reason)
        untrusted.hint = next((hint for says, hint in _CERTIFICATE_HINTS.items() if says in reason), untrusted.hint)
        return untrusted
    if proxy is None:
        if not is_unsent and _NO_ANSWER in reason and url.startswith("http://"):
            reason = f"{reason.removesuffix('.')} ({MAY_SPEAK_TLS})"
        error = (Unreachable if is_unsent else ConnectionLost)(url=url, reason=reason)
        if is_unsent and any(each in reason for each in _NO_TLS):
            error.hint = SPEAKS_NO_TLS
        if _ALERT in reason:
            error.hint = REFUSES_BY_TLS
        return error
    if is_unsent:
        return Unreachable.of(
            "proxy-unreachable", url=url, reason=reason, proxy=proxy.without_password, variable=proxy.variable
        )
    return ConnectionLost(
        url=url, reason=f"{reason}, through the proxy {proxy.without_password} that {proxy.variable} names"
    )


def _is_exempt(host: str, no_proxy: str) -> bool:
    """Return whether *no_proxy* has `*`, a network of *host*, or its domain as `*.example.com`.

    `urllib` knows the rest: names of hosts and domains.
    """
    address = parse_ip(host)
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


def _variable(name: str) -> str:
    return next((each for each in (name, name.upper()) if os.environ.get(each)), SYSTEM)
