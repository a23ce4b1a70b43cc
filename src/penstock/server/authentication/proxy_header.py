"""A proxy that authenticates clients, and names them in a header."""

import re
from collections.abc import Iterable
from typing import Final, Literal

from starlette.types import Scope

from penstock.core.access import Caller, is_caller_name
from penstock.errors import Unauthenticated
from penstock.hub.hub import Hub
from penstock.server.authentication.authentication import address_of
from penstock.server.http.requests import PEER, TrustedProxies

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token (RFC 9110, 5.6.2)."""


class ProxyHeaderMethod:
    """Identifies callers by a header that trusted proxies set. Such headers of other peers are ignored.

    Args:
        header: the name of the header.
        data_type: the type of the callers that it names.
        proxies: addresses and networks of the proxies. They have to replace the header of clients.

    Raises:
        ValueError: *proxies* is empty, or has a member that is neither an address nor a network; or *header* is not
            the name of a header, or is Authorization, which clients set themselves.
    """

    name = "proxy"

    def __init__(self, header: str, data_type: Literal["service", "user"], proxies: Iterable[str]) -> None:
        addresses = list(proxies)
        if not addresses:
            raise ValueError("no proxy is trusted, so the header would always be ignored")
        if not _HEADER_NAME.fullmatch(header):
            raise ValueError(f"{header!r} is no name of a header")
        if header.lower() == "authorization":
            raise ValueError("Authorization has what clients send: let the proxy use another, such as X-Forwarded-User")
        self._header = header.lower().encode("ascii")
        self._data_type = data_type
        self._proxies = TrustedProxies(addresses)

    def start(self, _: Hub) -> None:
        """Do nothing: requests carry the header."""

    def identify(self, scope: Scope) -> Caller | None:
        """Return the caller whom a trusted proxy names; None for requests of others, and for those without the header.

        Raises:
            Unauthenticated: the header is there twice, or names no caller.
        """
        found = [value for name, value in scope["headers"] if name == self._header]
        if not found or scope.get(PEER, address_of(scope)) not in self._proxies:
            return None
        if len(found) > 1:
            raise Unauthenticated(reason=f"the proxy has sent the header {self._header.decode()} {len(found)} times")
        try:
            value = found[0].decode("utf-8")
        except UnicodeDecodeError:
            raise Unauthenticated(reason=f"the header {self._header.decode()} is not UTF-8") from None
        if not is_caller_name(value):
            raise Unauthenticated(reason=f"{value[:80]!r} of the proxy is no name of a caller")
        return Caller(self._data_type, value)

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
