"""Heads that a connection repeats: most clients send the same one each time, but for the length of the body.

Comparing bytes takes a small part of the time of parsing them. Only whole requests are compared; all others, and heads
that differ in any other byte, are parsed.
"""

import re
from typing import Any, Final, NamedTuple, Self

from starlette.types import Scope

_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,9})\r\n", re.IGNORECASE)
_END: Final = b"\r\n\r\n"
_DIGITS_MAX: Final = 9
_NAME: Final = b"content-length"


class KnownHead(NamedTuple):
    """The head of a request that a connection has sent, with the scope that it has led to."""

    before: bytes
    """The bytes before the digits of Content-Length."""
    after: bytes
    """The bytes behind them, up to the body."""
    scope: Scope
    headers: list[tuple[bytes, bytes]]
    length_at: int
    """The index of Content-Length among the headers."""
    memo: dict[str, Any]
    """For what the application finds out about all requests with this head."""

    @classmethod
    def learn(cls, request: bytes, scope: Scope) -> Self | None:
        """Return the head of a whole *request*, which was parsed to *scope*; None if its body is not of known length.

        The request must be all of the bytes, with nothing behind its body.
        """
        end = request.find(_END) + len(_END)
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        places = [at for at, (name, _) in enumerate(headers) if name == _NAME]
        found = _LENGTH.search(request, 0, end)
        if found is None or len(places) != 1 or int(found[1]) != len(request) - end:
            return None
        return cls(request[: found.start(1)], request[found.end(1) : end], dict(scope), headers.copy(), places[0], {})

    def match(self, request: bytes) -> tuple[Scope, bytes] | None:
        """Return the scope and the body of *request*, if it is whole and its head is this one; None otherwise."""
        before, after, known, headers, length_at, _ = self
        if not request.startswith(before):
            return None
        start = len(before)
        end = request.find(b"\r", start, start + _DIGITS_MAX + 1)
        digits = request[start:end]
        body_at = end + len(after)
        if not digits.isdigit() or not request.startswith(after, end) or int(digits) != len(request) - body_at:
            return None
        scope = dict(known)
        scope["headers"] = own = headers.copy()
        own[length_at] = (_NAME, digits)
        return scope, request[body_at:]
