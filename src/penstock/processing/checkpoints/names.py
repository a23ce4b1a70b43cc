"""Encodes names of streams for a database or a hub: any text, even invalid Unicode."""

import re
from hashlib import sha256
from typing import Final

_ODD: Final = re.compile("[\\\\\0\ud800-\udfff]")
_ESCAPED: Final = re.compile(r"\\([0-9a-f]{4})")


def kept(name: str) -> str:
    r"""Return *name* in its stored form: the backslash and characters that cannot be stored become hex escapes.

    >>> print(kept("order-7"), kept("C:\\x"), kept("a\0"))
    order-7 C:\005cx a\0000
    """
    return _ODD.sub(lambda found: f"\\{ord(found[0]):04x}", name)


def name_of(kept: str) -> str:
    """Return the name whose stored form is *kept*."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), kept)


def digest(name: str) -> str:
    """Return the SHA-256 of *name*, as hex digits."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
