"""JSON answers, warnings beside them, and links in them.

A warning tells the client that its request has succeeded, and that something about the result may be unexpected.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.core.registry.event_type import find_members_without_effect
from penstock.server.http.encoding import choose_encoding, encoder
from penstock.server.http.requests import ORIGIN

CUT: Final = "penstock.cut"
"""The key of the scope for the reason why the hub has ended an answer before it was whole."""
COMPRESSED_FROM_BYTES: Final = 1_024
"""A smaller answer is not compressed: it fits into one packet anyway."""


class JsonResponse(Response):
    """JSON, compressed if it is large enough and the client accepts that."""

    media_type = "application/json"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it (ASGI)."""
        self.headers.add_vary_header("Accept-Encoding")
        is_large = len(self.body) >= COMPRESSED_FROM_BYTES
        encoding = choose_encoding(Headers(scope=scope).get("accept-encoding")) if is_large else None
        if encoding is not None:
            self.body = await run_in_threadpool(_compress, bytes(self.body), encoding)
            self.headers["Content-Encoding"] = encoding
            self.headers["Content-Length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def _compress(body: bytes, encoding: str) -> bytes:
    encode = encoder(encoding)
    return encode.compress(body) + encode.flush()


def json_response(content: Any, status: int = 200) -> Response:
    """Return *content* as JSON."""
    return JsonResponse(msgspec.json.encode(content), status)


def warn(answer: Response, texts: Iterable[str]) -> Response:
    """Return *answer* with a warning for each of *texts*, which are printable ASCII (RFC 7234, 5.5)."""
    for text in texts:
        answer.headers.append("Warning", f'299 penstock "{text}"')
    return answer


def warn_of_no_effect(answer: Response, name: str, given: Mapping[str, Any], *, authenticates: bool) -> Response:
    """Return *answer* with a warning for each member of the definition *given* that has no effect yet."""
    return warn(answer, (f"{name}: {each}" for each in find_members_without_effect(given, authenticates=authenticates)))


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
    """Return the hub's address: a URL if a trusted proxy reports the host, else a path."""
    return f"{request.scope.get(ORIGIN, '')}{link(request, '')}" or "/"
