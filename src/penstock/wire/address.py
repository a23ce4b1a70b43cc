"""Addresses of hubs and feeds, checked before anything is sent."""

import re
from typing import Final
from urllib.parse import urlsplit

from penstock.errors import BadParameter

EXAMPLE: Final = "http://localhost:8080"
CHARS_MAX: Final = 200
"""What is longer was no address."""
LABEL_CHARS_MAX: Final = 63
"""RFC 1035, 2.3.4."""
_NEVER: Final = re.compile(r"[\s\x00-\x1f\x7f]")


def is_address(text: str) -> bool:
    """Tell whether *text* can be asked over HTTP.

    >>> is_address("https://shop.example/hub"), is_address("localhost:8080"), is_address("http://localhost:port")
    (True, False, False)
    """
    try:
        parts = urlsplit(text)
        _ = parts.port  # Raises when it is no number.
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and _is_host(parts.hostname or "") and not _NEVER.search(text)


def _is_host(name: str) -> bool:
    """Return whether resolvers take *name*: labels of 1 to 63 characters."""
    try:
        name = name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        return False
    return all(1 <= len(label) <= LABEL_CHARS_MAX for label in name.removesuffix(".").split("."))


def meant(text: str) -> str:
    """Return the address that *text*, which is none, was probably meant to be; an example where that cannot be told.

    >>> meant("localhost:1"), meant("ftp://localhost")
    ('http://localhost:1', 'http://localhost:8080')
    """
    if len(text) > CHARS_MAX:
        return EXAMPLE
    completed = f"http://{text.strip().lstrip('/')}"
    return completed if "://" not in text and is_address(completed) else EXAMPLE


def check_address(url: object, *, relative: bool = False) -> str:
    """Return *url* if it is an address; *relative* allows for one that something else completes.

    White space around it is left out: files that hold an address mostly end in a line break.

    Raises:
        BadParameter: it is none; says what it was probably meant to be.
    """
    url = url.strip() if isinstance(url, str) else url
    if isinstance(url, str) and (is_address(url) or (relative and url[:1] in ("", "/"))):
        return url
    text = url if isinstance(url, str) else ""
    allowed = f"an address that begins with http:// or https://, such as {meant(text)}"
    raise BadParameter(parameter="url", value="(not shown)" if "@" in text else url, allowed=allowed)
