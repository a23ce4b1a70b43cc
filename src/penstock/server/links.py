"""Makes every link that an answer gives."""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request

from penstock.server.proxies import ORIGIN

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
