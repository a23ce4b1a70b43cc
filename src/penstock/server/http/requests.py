"""Requests as they arrive: forwarding headers, checks that hold on every route, bounded bodies.

A request has a flow id (`X-Flow-Id`), a path without `//`, and a content encoding only if it is a POST, as in Nakadi.
Its body has a bounded size. Some media types are refused on every route. Trusted proxies say from which address, and
under which path and origin, the client has reached the hub.
"""

import asyncio
import re
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from random import getrandbits
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from penstock.errors import BadParameter, Forbidden, MalformedEvent, PenstockError, RequestTooLarge, UnsupportedFormat
from penstock.schema.json_text import decode, explain_malformed, refuse_duplicate_keys
from penstock.server.http.browsers import find_foreign_page, is_linkable, is_own_name, name_of
from penstock.server.http.encoding import decode_body, join_pieces
from penstock.server.http.streaming import RunInThread
from penstock.server.limits import USAGE, RequestUsage
from penstock.wire.log.cloudevents import find_content_mode
from penstock.wire.query import make_printable

CREDENTIAL: Final = "penstock.credential"
"""The scope's key for the header Authorization; not there if there is none."""
CHECK_AGAIN: Final = "penstock.check-again"
"""The scope's key for a function of the scope that raises if the sender may no longer do what the request was admitted
for; not there if nobody is asked who they are."""
FLOW_ID_CHARS_MAX: Final = 128
_FLOW_ID: Final = re.compile(rb"[!-~](?:[ -~]{0,%d}[!-~])?" % (FLOW_ID_CHARS_MAX - 2))


_CHECKED: Final = frozenset(
    [b"x-flow-id", b"content-encoding", b"authorization", b"origin", b"sec-fetch-site", b"upgrade"]
)
"""Headers that `check_arrival` looks at, beside Host and those that a body has."""


class Arrival(NamedTuple):
    """A request after the checks that hold on every route."""

    scope: Scope
    """The request's scope; its path has no slash at the end."""
    flow_id: str
    """The id under which all services log what belongs to one piece of work."""
    refusal: PenstockError | None
    """The error that refuses the request on any route; None if it passes."""
    closes: bool
    """True if the connection has to be closed after the answer: some servers read the body of a request that offers an
    upgrade as another request."""


def check_arrival(
    scope: Scope, *, names: Collection[str] | None = None, origins: Container[bytes] = frozenset()
) -> Arrival:
    """Check a request by the rules that hold on every route.

    Those of paths and encodings are Nakadi's. A request that a browser has sent for a page of another origin is
    refused: see `browsers`; those of *origins* are not. With *names*, in lower case, the hub answers under these and
    those of this machine alone.
    """
    flow_id = encoding = origin = site = credential = None
    closes = False
    found = dict(scope["headers"])
    for name, value in () if _CHECKED.isdisjoint(found) else scope["headers"]:
        if name == b"x-flow-id":
            flow_id = flow_id or value
        elif name == b"content-encoding":
            encoding = value
        elif name == b"authorization":
            scope[CREDENTIAL] = credential = value if credential is None else b""  # Of two nobody knows which counts.
        elif name == b"origin":
            origin = value
        elif name == b"sec-fetch-site":
            site = value
        elif name == b"upgrade":
            closes = b"content-length" in found or b"transfer-encoding" in found
    path: str = scope["path"]
    raw_path = scope.get("raw_path")
    ends = path.endswith("/") and (raw_path is None or raw_path.endswith(b"/"))  # Else a name has the slash, as %2F.
    if ends and len(path) > 1 and len(path) > len(scope.get("root_path", "")) + 1:
        scope = {**scope, "path": path[:-1]}
    refusal = _find_refusal(scope["method"], path, raw_path, encoding)
    if refusal is None and (names is not None or origin is not None or site is not None):
        allowed = origin is not None and origin in origins
        refusal = _find_browser_refusal(
            scope, found.get(b"host", b""), *((None, None) if allowed else (origin, site)), names
        )
    return Arrival(scope, _flow_id(flow_id), refusal, closes=closes)


def _find_browser_refusal(
    scope: Scope, host: bytes, origin: bytes | None, site: bytes | None, names: Collection[str] | None
) -> PenstockError | None:
    own_origin = scope.get(ORIGIN)
    is_page = scope["method"] in ("GET", "HEAD") and is_linkable(route_path(scope))
    refusal = find_foreign_page(host=host, own_origin=own_origin, origin=origin, site=site, is_page=is_page)
    if names is not None and refusal is None and not is_own_name(host) and name_of(host) not in names:
        return Forbidden.of("foreign-host", host=make_printable(host.decode("latin-1"))[:200])
    return refusal


def route_path(scope: Scope) -> str:
    """Return the path of a request below the one under which the hub is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _flow_id(given: bytes | None) -> str:
    """Return the flow id of a request, or a new one if it has none that can be logged."""
    if given is not None and _FLOW_ID.fullmatch(given):
        return given.decode("ascii")
    return make_flow_id()


def make_flow_id() -> str:
    """Return a new flow id, of 24 hexadecimal digits."""
    return f"{getrandbits(96):024x}"  # No secret: the system's random numbers would cost a trip to the kernel.


def _find_refusal(method: str, path: str, raw_path: bytes | None, encoding: bytes | None) -> PenstockError | None:
    if "//" in path and (raw_path is None or b"//" in raw_path):  # Else a name has them, as %2F.
        return BadParameter(parameter="path", value=make_printable(path), allowed="one without //")
    if encoding is not None and method != "POST":
        return UnsupportedFormat.of(
            "encoding-refused", method=method, encoding=make_printable(encoding.decode("latin-1"))
        )
    return None


AVRO = "application/avro-binary"


def refuse_foreign_body(request: Request) -> None:
    """Raise UnsupportedFormat if *request* announces events as Avro or as CloudEvents."""
    refuse_avro(request)
    if find_content_mode(request.headers) is not None:
        allowed = "POST /feeds/{event_type}, which takes CloudEvents"
        raise UnsupportedFormat.of("unsupported-media-type", given="a CloudEvent", allowed=allowed)


def refuse_avro(request: Request) -> None:
    """Raise UnsupportedFormat if *request* announces events as Avro."""
    if media_type_of(request) == AVRO:
        raise UnsupportedFormat.of("unsupported-media-type", given="Avro", allowed="application/json")


def media_type_of(request: Request) -> str:
    """Return the media type that *request* announces, in small letters; "" for none."""
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


BODY_BYTES_MAX: Final = 50 * 1024 * 1024
JOINED_BYTES_MAX: Final = 1 << 20
"""The pieces of larger bodies are joined in a worker thread."""
_DIGITS_MAX: Final = 18
"""Digits of a length that are read; Python itself refuses more than some thousand."""


async def read_body(request: Request, run: RunInThread, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Return the whole body, decompressed.

    Raises:
        RequestTooLarge: more than *bytes_max*, compressed or not; no more than that is held.
        TooManyRequests, HubUnavailable: too many bytes of bodies are held.
        BadParameter, UnsupportedFormat: it cannot be decompressed.
        Unauthenticated, AccessDenied: the sender has lost the right to send it while it came.
        BadParameter: it is shorter or longer than its Content-Length; or it did not arrive, since the request offers an
            upgrade and the server takes it for one without a body.
    """
    declared = _parse_length(request.headers.get("content-length"), bytes_max)
    pieces = await _receive(request, bytes_max)
    check_again(request.scope)
    size = sum(map(len, pieces))
    if declared is not None and size != declared:
        detail = f"the body has {size} bytes, and its Content-Length says {declared}; nothing was done"
        raise BadParameter(detail, parameter="body", value=size, allowed=f"{declared} bytes")
    if not size and "transfer-encoding" in request.headers and "upgrade" in request.headers:
        detail = "the body did not arrive, as it can happen to a request with the header Upgrade; nothing was done"
        raise BadParameter(detail, parameter="body", allowed="a request without the header Upgrade")
    if len(pieces) == 1:
        body = pieces[0]
    else:
        body = await run(lambda: join_pieces(pieces)) if size > JOINED_BYTES_MAX else b"".join(pieces)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return body
    decoded = await run(lambda: decode_body(body, encoding, bytes_max))
    if (usage := request.scope.get(USAGE)) is not None:
        usage.hold(len(decoded))
    return decoded


def check_again(scope: Scope) -> None:
    """Raise if the sender may no longer do what the request was admitted for; call it after a wait.

    Raises:
        Unauthenticated, AccessDenied, Blocked: see `authorize` of `penstock.server.auth`.
    """
    if (check := scope.get(CHECK_AGAIN)) is not None:
        check(scope)


async def _receive(request: Request, bytes_max: int) -> list[bytes]:
    """Return the pieces of the body. While it comes, another request has the turn of this one."""
    usage: RequestUsage | None = request.scope.get(USAGE)
    if usage is not None:
        usage.end_turn()
    pieces, size = [], 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if usage is not None and (pause := usage.receive(len(piece))):
                await asyncio.sleep(pause)
            if size > bytes_max:
                raise RequestTooLarge.of("body-too-large", limit=bytes_max)
            pieces.append(piece)
    except ClientDisconnect:
        raise BadParameter("the body broke off: the connection was lost in its middle", parameter="body") from None
    if usage is not None and (turn := usage.take_turn(size)) is not None:
        await turn
    return pieces


def _parse_length(content_length: str | None, bytes_max: int) -> int | None:
    if content_length is None:
        return None
    if not (content_length.isascii() and content_length.isdigit()):
        allowed = "a whole number of bytes"
        raise BadParameter(parameter="Content-Length", value=make_printable(content_length), allowed=allowed)
    if len(content_length) > _DIGITS_MAX or int(content_length) > bytes_max:
        raise RequestTooLarge.of("body-too-large", limit=bytes_max)
    return int(content_length)


def parse_json(body: bytes) -> Any:
    """Return the JSON of a body. Call it in a worker thread if the body can be large.

    Raises:
        BadParameter: the body is not JSON, or has a key twice: readers keep different ones.
    """
    try:
        found = decode(body)
        refuse_duplicate_keys(body, line=1)
        return found
    except MalformedEvent as error:
        raise BadParameter(f"the body: {error.reason}", parameter="body", allowed="strict JSON") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = f"the body is not JSON: {explain_malformed(body, error)}"
        raise BadParameter(detail, parameter="body", allowed="JSON") from None


ORIGIN: Final = "penstock.origin"
"""The scope's key for the scheme and host that clients use, such as `https://hub.example`."""
PEER: Final = "penstock.peer"
"""The scope's key for the address of the trusted proxy that has forwarded the request; not there if none has."""
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
        found = _parse_address(address)
        return found is not None and any(found in network for network in self._networks)

    def apply_forwarding(self, scope: Scope) -> Scope:
        """Return *scope* as the client sees it: with the address, prefix and origin that a trusted proxy reports.

        The address is the last one in `X-Forwarded-For` that is not that of a trusted proxy. It takes the place of the
        proxy's, which is then in `PEER`.

        `X-Forwarded-Prefix` is the path that the proxy has removed; several are in the order in which they were
        removed. The origin comes from `Forwarded` (RFC 7239), else from `X-Forwarded-Host` and `X-Forwarded-Proto`.
        A prefix may be percent-encoded. Headers of other peers, and malformed values, change nothing.
        """
        peer = (scope.get("client") or ("",))[0]
        if not self._networks or peer not in self:
            return scope
        given = _Headers(scope["headers"])
        prefix = "".join(map(_decode_prefix, given.values("x-forwarded-prefix")))
        hop = self._find_outermost(list(given.hops()))
        client = self._find_client(peer, given.values("x-forwarded-for"))
        found = {**scope, "client": (client, 0), PEER: peer}
        if prefix:
            found |= {"root_path": prefix + scope.get("root_path", ""), "path": prefix + scope["path"]}
        if hop is not None and _HOST.fullmatch(hop.host):
            scheme = hop.scheme.lower() if hop.scheme.lower() in ("http", "https") else scope["scheme"]
            found[ORIGIN] = f"{scheme}://{hop.host}"
        return found

    def _find_client(self, peer: str, nodes: Sequence[str]) -> str:
        """Return the last address of *nodes* that is not that of a trusted proxy; the first one if all are.

        Each proxy appends the address of its client. The client may have made up all entries before an untrusted
        address, and before an entry that is no address.
        """
        found = peer
        for node in reversed(nodes):
            address = _parse_address(_address(node))
            if address is None:
                break
            found = str(address)
            if found not in self:
                break
        return found

    def _find_outermost(self, hops: Sequence[_Hop]) -> _Hop | None:
        """Return the account of the outermost trusted proxy: each one vouches for the proxy before it."""
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
        """Yield the account of each proxy on the way, the outermost first."""
        forwarded = ",".join(text for name, text in self._raw if name == "forwarded")
        if forwarded:
            for each in _elements(forwarded):
                yield _Hop(_address(each.get("for", "")), each.get("proto", ""), each.get("host", ""))
            return
        clients, schemes, hosts = (self.values(f"x-forwarded-{name}") for name in ("for", "proto", "host"))
        for at in range(max(1, len(clients)), 0, -1):
            yield _Hop(_address(_choose_last(clients, at)), _choose_last(schemes, at), _choose_last(hosts, at))


def _decode_prefix(text: str) -> str:
    """Return a prefix of paths as ASGI's `root_path` has it; empty if it is malformed.

    Malformed is also an encoded slash, which would be another segment once it is decoded, and a control character.

    >>> _decode_prefix("/caf%C3%A9/"), _decode_prefix("/a%2Fb"), _decode_prefix("/%FF"), _decode_prefix("hub")
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
    """Return the elements of `Forwarded`, their names in small letters; none if it is malformed (RFC 7239, 4)."""
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


def _choose_last(values: Sequence[str], at: int) -> str:
    """Return the value that is *at* places from the end; of fewer, the first."""
    return values[-min(at, len(values))] if values else ""


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an IP address, of IPv4 where IPv6 only wraps it; None if *text* is none, or names an interface, too."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv4Address):
        return found
    return None if found.scope_id is not None else found.ipv4_mapped or found


def _address(node: str) -> str:
    """Return the address of a node, without its port.

    >>> _address("[2001:db8::1]:4711"), _address("192.0.2.43:80"), _address("2001:db8::1")
    ('2001:db8::1', '192.0.2.43', '2001:db8::1')
    """
    match = _NODE.fullmatch(node)
    return (match[1] or match[2] or "") if match else node
