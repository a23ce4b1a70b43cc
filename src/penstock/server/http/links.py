"""Forwarding headers: where clients reach the hub, as trusted proxies in front of it say.

Makes every link that an answer gives.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlencode

from starlette.requests import Request
from starlette.types import Scope

ORIGIN: Final = "penstock.origin"
"""The scope's key for the scheme and host that clients use, such as `https://hub.example`."""
_PAIR: Final = re.compile(r"""\s*(?:([\w!#$%&'*+.^`|~-]+)=("(?:\\.|[^"\\])*"|[^\s;,"]*))?\s*([;,]|$)""", re.ASCII)
_HOST: Final = re.compile(r"[\w.-]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?", re.ASCII)
_PREFIX: Final = re.compile(r"(/([\w.~!$&'()*+;=:@-]|%[0-9a-fA-F]{2})+)*/?", re.ASCII)
_NODE: Final = re.compile(r"\[([^\]]*)\](?::\w+)?|([^:]*)(?::\w+)?", re.ASCII)


class _Hop(NamedTuple):
    """One proxy's account of the request that it received."""

    client: str
    scheme: str
    host: str


class TrustedProxies:
    """The addresses of proxies whose forwarding headers the hub believes."""

    def __init__(self, addresses: Iterable[str]) -> None:
        """Take IP addresses and networks, such as `127.0.0.1` and `10.0.0.0/8`.

        Raises:
            TypeError: a single string is given in place of several.
            ValueError: one is neither.

        >>> TrustedProxies("10.0.0.0/8")
        Traceback (most recent call last):
        TypeError: trusted proxies are a list of addresses and networks, such as ['10.0.0.0/8'], not one string
        """
        if isinstance(addresses, str):
            raise TypeError(
                f"trusted proxies are a list of addresses and networks, such as [{addresses!r}], not one string"
            )
        self._networks = [ip_network(each) for each in addresses]

    def __contains__(self, address: str) -> bool:
        """Return whether *address* is that of a trusted proxy.

        >>> "10.1.2.3" in TrustedProxies(["10.0.0.0/8"]), "::ffff:10.1.2.3" in TrustedProxies(["10.0.0.0/8"])
        (True, True)
        """
        if not self._networks:
            return False
        try:
            found = ip_address(address)
        except ValueError:
            return False
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found in network for network in self._networks)

    def as_forwarded(self, scope: Scope) -> Scope:
        """Return *scope* as the client sees it: below the prefix, and with the origin, that a trusted proxy tells.

        `X-Forwarded-Prefix` is the path that the proxy has removed; several are in the order in which they were
        removed. The origin comes from `Forwarded` (RFC 7239), else from `X-Forwarded-Host` and `X-Forwarded-Proto`.
        A prefix may be percent-encoded. Headers of other peers, and malformed values, change nothing.
        """
        if not self._networks or (scope.get("client") or ("",))[0] not in self:
            return scope
        given = _Headers(scope["headers"])
        prefix = "".join(map(_decoded_prefix, given.values("x-forwarded-prefix")))
        hop = self._outermost(list(given.hops()))
        found = dict(scope)
        if prefix:
            found |= {"root_path": prefix + scope.get("root_path", ""), "path": prefix + scope["path"]}
        if hop is not None and _HOST.fullmatch(hop.host):
            scheme = hop.scheme.lower() if hop.scheme.lower() in ("http", "https") else scope["scheme"]
            found[ORIGIN] = f"{scheme}://{hop.host}"
        return found

    def _outermost(self, hops: Sequence[_Hop]) -> _Hop | None:
        """Return what the outermost trusted proxy says: each one vouches for the proxy that it has heard from."""
        found = None
        for found in reversed(hops):
            if found.client not in self:
                break
        return found


class _Headers:
    """The forwarding headers of one request."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]

    def values(self, name: str) -> list[str]:
        """Return the values of a list header, those of repeated headers in their order."""
        return [each.strip() for given, text in self._raw if given == name for each in text.split(",") if each.strip()]

    def hops(self) -> Iterator[_Hop]:
        """Yield what each proxy on the way has said, the outermost first."""
        forwarded = ",".join(text for name, text in self._raw if name == "forwarded")
        if forwarded:
            for each in _elements(forwarded):
                yield _Hop(_address(each.get("for", "")), each.get("proto", ""), each.get("host", ""))
            return
        clients, schemes, hosts = (self.values(f"x-forwarded-{name}") for name in ("for", "proto", "host"))
        for at in range(max(1, len(clients)), 0, -1):
            yield _Hop(_address(_last(clients, at)), _last(schemes, at), _last(hosts, at))


def _decoded_prefix(text: str) -> str:
    """Return a prefix of paths as ASGI's `root_path` has it; empty where it is malformed.

    Malformed is also an encoded slash, which would be another segment once it is decoded, and a control character.

    >>> _decoded_prefix("/caf%C3%A9/"), _decoded_prefix("/a%2Fb"), _decoded_prefix("/%FF"), _decoded_prefix("hub")
    ('/café', '', '', '')
    """
    if not _PREFIX.fullmatch(text):
        return ""
    try:
        found = unquote(text, errors="strict")
    except UnicodeDecodeError:
        return ""
    return found.rstrip("/") if found.count("/") == text.count("/") and found.isprintable() else ""


def _elements(text: str) -> list[dict[str, str]]:
    """Return the elements of `Forwarded`, their names in small letters; none where it is malformed (RFC 7239, 4)."""
    found: list[dict[str, str]] = [{}]
    at = 0
    while True:
        match = _PAIR.match(text, at)
        if match is None:
            return []
        name, value, separator = match.groups()
        if name:
            found[-1][name.lower()] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        if not separator:
            return found
        if separator == ",":
            found.append({})
        at = match.end()


def _last(values: Sequence[str], at: int) -> str:
    """Return the value that is *at* places from the end; of fewer, the first."""
    return values[-min(at, len(values))] if values else ""


def _address(node: str) -> str:
    """Return the address of a node, without its port.

    >>> _address("[2001:db8::1]:4711"), _address("192.0.2.43:80"), _address("2001:db8::1")
    ('2001:db8::1', '192.0.2.43', '2001:db8::1')
    """
    match = _NODE.fullmatch(node)
    return (match[1] or match[2] or "") if match else node


Pairs = Iterable[tuple[str, object]]
"""Names and values of a query, in their order."""
_PATH_CHARS: Final = "/!$&'()*+,;=:@~"
"""Characters of a path that stand for themselves (RFC 3986, 3.3), beside letters and digits."""


def link(request: Request, path: str, query: Pairs = ()) -> str:
    """Return the link to *path* of the hub, percent-encoded already, as the client of *request* can follow it.

    It begins with the path under which the hub is mounted, or that a trusted proxy has removed, and has no scheme and
    no host, as Nakadi's links have none.
    """
    text = urlencode(list(query), quote_via=quote, safe=":,")
    return f"{quote(request.scope.get('root_path', ''), safe=_PATH_CHARS)}{path}{'?' if text else ''}{text}"


def page_links(request: Request, path: str, pages: Mapping[str, Pairs]) -> dict[str, Any]:
    """Return the links of a page to others of its list, each by the query that asks for it."""
    return {name: {"href": link(request, path, query)} for name, query in pages.items()}


def server_url(request: Request) -> str:
    """Return where the hub is: a URL where a trusted proxy tells the host, else a path."""
    return f"{request.scope.get(ORIGIN, '')}{link(request, '')}" or "/"
