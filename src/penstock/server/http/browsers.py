"""Refuses requests that web pages of other origins make through a user's browser.

A browser sends such requests with its user's credentials: network address, client certificate, session at a proxy. So
those pages could read and publish as the user. The hub sets no cookies and no CORS headers, and refuses the requests by
headers that pages cannot change: `Origin` (RFC 6454) and `Sec-Fetch-Site` (W3C, Fetch Metadata Request Headers).
"""

from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from penstock.errors import Forbidden

PAGES: Final = frozenset({"/", "/docs", "/docs/"})
"""Pages for people, to which others may link, beside those of the console."""
_CONSOLE: Final = "/console"
_OWN_SITES: Final = frozenset({b"same-origin", b"none"})


def is_linkable(path: str) -> bool:
    """Return whether other sites may link to *path*: one of `PAGES`, or of the console's, but not the console's files.

    >>> [is_linkable(each) for each in ("/docs", "/console", "/console/groups", "/console/assets/app.js", "/groups")]
    [True, True, True, False, False]
    """
    is_of_console = path == _CONSOLE or path.startswith(f"{_CONSOLE}/")
    return path in PAGES or (is_of_console and not path.startswith(f"{_CONSOLE}/assets/"))


def find_foreign_page(
    *, host: bytes, own_origin: str | None, origin: bytes | None, site: bytes | None, is_page: bool
) -> Forbidden | None:
    """Return an error if a page of another origin has sent the request, else None.

    Args:
        host: The header `Host`.
        own_origin: The hub's origin as clients see it, if a proxy has told it.
        origin: The header `Origin`.
        site: The header `Sec-Fetch-Site`.
        is_page: True if the request is for a page which other pages may link to: see `is_linkable`.
    """
    if origin is not None:
        authority = origin.partition(b"://")[2]
        own = (own_origin or "").partition("://")[2].encode("latin-1", "replace")
        if authority.lower() not in (host.lower(), own.lower()) or not authority:
            return Forbidden.of("cross-site", origin=origin.decode("latin-1")[:200])
    if site is not None and site not in _OWN_SITES and not is_page:  # Even with the hub's name: the page may be http.
        return Forbidden.of("cross-site", origin=None)
    return None


@lru_cache(maxsize=1024)
def is_own_name(host: bytes) -> bool:
    """Return whether the header *host* names this machine by an address, or as `localhost`.

    A page can have a name of its own lead here (DNS rebinding), which makes the hub one of its own origin.

    >>> [is_own_name(each) for each in (b"127.0.0.1:8080", b"[::1]:8080", b"localhost", b"hub.localhost:80")]
    [True, True, True, True]
    >>> is_own_name(b"evil.example:8080"), is_own_name(b"localhost.evil.example"), is_own_name(b"")
    (False, False, True)
    """
    name = name_of(host)
    if not name or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def name_of(host: bytes) -> str:
    """Return the name or the address in a header `Host`, in lower case and without the port.

    >>> name_of(b"Hub.example:8080"), name_of(b"[::1]:80")
    ('hub.example', '::1')
    """
    text = host.decode("latin-1").lower()
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
