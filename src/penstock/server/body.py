"""Request bodies, bounded."""

from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request

from penstock.errors import BadParameter, BodyTooLarge, MalformedEvent
from penstock.schema.json_text import decode, refuse_duplicate_keys, why_malformed
from penstock.server.encoding import decode_body
from penstock.server.state import State
from penstock.wire.query import shown

BODY_BYTES_MAX: Final = 50 * 1024 * 1024
_DIGITS_MAX: Final = 18
"""Of a length that can be any; Python reads no more than some thousand digits."""


async def read_body(request: Request, state: State, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Return the whole body, decompressed.

    Raises:
        BodyTooLarge: more than *bytes_max*, compressed or not; no more than that is held.
        BadParameter, UnsupportedMediaType: it cannot be decompressed.
        BadParameter: it is shorter or longer than its Content-Length; or it did not arrive, since the request offers an
            upgrade and the server takes it for one without a body.
    """
    declared = _declared(request.headers.get("content-length"), bytes_max)
    pieces, size = [], 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > bytes_max:
                raise BodyTooLarge(limit=bytes_max)
            pieces.append(piece)
    except ClientDisconnect:
        raise BadParameter("the body broke off: the connection was lost in its middle", parameter="body") from None
    if declared is not None and size != declared:
        detail = f"the body has {size} bytes, and its Content-Length says {declared}; nothing was done"
        raise BadParameter(detail, parameter="body", value=size, allowed=f"{declared} bytes")
    if not size and "transfer-encoding" in request.headers and "upgrade" in request.headers:
        detail = "the body did not arrive, as it can happen to a request with the header Upgrade; nothing was done"
        raise BadParameter(detail, parameter="body", allowed="a request without the header Upgrade")
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return body
    return await state.run(lambda: decode_body(body, encoding, bytes_max))


def _declared(content_length: str | None, bytes_max: int) -> int | None:
    if content_length is None:
        return None
    if not (content_length.isascii() and content_length.isdigit()):
        allowed = "a whole number of bytes"
        raise BadParameter(parameter="Content-Length", value=shown(content_length), allowed=allowed)
    if len(content_length) > _DIGITS_MAX or int(content_length) > bytes_max:
        raise BodyTooLarge(limit=bytes_max)
    return int(content_length)


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
