"""Request bodies, bounded."""

from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request

from penstock.core.event import refuse_duplicate_keys, why_malformed
from penstock.core.numbers import decode
from penstock.errors import BadParameter, BodyTooLarge, MalformedEvent
from penstock.server.encoding import decode_body
from penstock.server.state import State

BODY_BYTES_MAX: Final = 50 * 1024 * 1024
_DIGITS_MAX: Final = 18
"""Of a length that can be any; Python reads no more than some thousand digits."""


async def read_body(request: Request, state: State, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Return the whole body, decompressed.

    Raises:
        BodyTooLarge: more than *bytes_max*, compressed or not; no more than that is held.
        BadParameter, UnsupportedMediaType: it cannot be decompressed.
    """
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and (len(declared) > _DIGITS_MAX or int(declared) > bytes_max):
        raise BodyTooLarge(limit=bytes_max)
    pieces, size = [], 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > bytes_max:
                raise BodyTooLarge(limit=bytes_max)
            pieces.append(piece)
    except ClientDisconnect:
        raise BadParameter("the body broke off: the connection was lost in its middle", parameter="body") from None
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return body
    return await state.run(lambda: decode_body(body, encoding, bytes_max))


def parsed(body: bytes) -> Any:
    """Return the JSON of a body; where that can be large, nothing for an event loop.

    Raises:
        BadParameter: it is none, or holds a key twice, of which readers keep different ones.
    """
    try:
        found = decode(body)
        refuse_duplicate_keys(body, line=1)
        return found
    except MalformedEvent as error:
        raise BadParameter(f"the body: {error.fields['reason']}", parameter="body", allowed="strict JSON") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = f"the body is not JSON: {why_malformed(body, error)}"
        raise BadParameter(detail, parameter="body", allowed="JSON") from None
