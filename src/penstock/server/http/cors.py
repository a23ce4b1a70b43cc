"""Lets the pages of some origins read answers (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol).

Starlette's middleware is not used: its answers to requests without `Origin` lack `Vary: Origin`, and a cache would hand
such a page to a browser, which then refuses it.

Invariants:
    Each origin is named: there is no wildcard, beside which credentials would reach every page.
"""

import re
from collections.abc import Iterable
from typing import Final

from starlette.responses import Response
from starlette.types import Message, Scope, Send

from penstock.server.telemetry import WHOLE_ANSWER
from penstock.wire.log.feedapi import CURSOR_HEADER, LEFT_OUT_HEADER
from penstock.wire.subscriptions import STREAM_ID

EXPOSED: Final = (
    *(CURSOR_HEADER, LEFT_OUT_HEADER, STREAM_ID, "X-Flow-Id"),
    *("ETag", "Link", "Location", "Retry-After", "Warning", "WWW-Authenticate", "Allow"),
)
"""The headers of answers that pages can read, besides those that they always can, such as Content-Type."""
METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE"
PREFLIGHT_SECONDS: Final = 3_600
"""For so long browsers need not ask again whether a page may send a request."""
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?", re.ASCII)


def check_origin(text: str) -> str:
    """Return the origin *text* in the form of the header `Origin`: lower case, without a default port.

    Raises:
        ValueError: *text* is no origin, or a pattern for several origins.

    >>> check_origin("https://App.example/")
    'https://app.example'
    """
    origin = text.lower().removesuffix("/")
    for scheme, port in (("http", ":80"), ("https", ":443")):
        if origin.startswith(f"{scheme}://"):
            origin = origin.removesuffix(port)
    if not _ORIGIN.fullmatch(origin):
        raise ValueError(f"{text!r} is no origin of pages; give scheme, host and port, such as https://app.example")
    return origin


class AllowedOrigins:
    """The origins whose pages may use the hub, and the headers by which browsers let them."""

    def __init__(self, origins: Iterable[str]) -> None:
        """Allow *origins*, such as `https://app.example`.

        Raises:
            ValueError: a member of *origins* is no origin.
        """
        self._origins = frozenset(check_origin(each).encode() for each in origins)

    def __contains__(self, origin: object) -> bool:
        return origin in self._origins

    def add_headers(self, scope: Scope, send: Send) -> Send:
        """Return *send* with the headers that let the page that has sent a request read the answer."""
        origin = _find_header(scope, b"origin")
        added = _read_headers(origin) if origin in self._origins else []

        async def send_with_headers(event: Message) -> None:
            if event["type"] in ("http.response.start", WHOLE_ANSWER):
                event = {**event, "headers": [*_vary_by_origin(event.get("headers", ())), *added]}
            await send(event)

        return send_with_headers

    def answer_preflight(self, scope: Scope) -> Response | None:
        """Return the answer to a preflight request of an allowed origin; None for all other requests."""
        if scope["method"] != "OPTIONS" or _find_header(scope, b"origin") not in self._origins:
            return None
        if _find_header(scope, b"access-control-request-method") is None:
            return None
        headers = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Max-Age": str(PREFLIGHT_SECONDS)}
        if names := _find_header(scope, b"access-control-request-headers"):
            headers["Access-Control-Allow-Headers"] = names.decode("latin-1")
        return Response(status_code=204, headers=headers)


def _read_headers(origin: bytes | None) -> list[tuple[bytes, bytes]]:
    assert origin is not None
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-credentials", b"true"),
        (b"access-control-expose-headers", ", ".join(EXPOSED).encode()),
    ]


def _vary_by_origin(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return *headers* with `Origin` in the one header Vary: some caches know only one."""
    varies = [b"Origin"]
    others = []
    for name, value in headers:
        if name.lower() == b"vary":
            varies.insert(-1, value)
        else:
            others.append((name, value))
    return [*others, (b"vary", b", ".join(varies))]


def _find_header(scope: Scope, wanted: bytes) -> bytes | None:
    return next((value for name, value in scope["headers"] if name == wanted), None)
