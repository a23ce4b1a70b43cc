"""Checks that hold for every request, and bounded request bodies.

Every request has a flow id (`X-Flow-Id`), a path without `//`, and a content encoding only if it is a POST, as in
Nakadi. Request bodies have a bounded size. Some media types are refused on every route.
"""

import os
import re
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from penstock.errors import (
    BadParameter,
    MalformedEvent,
    NotAcceptable,
    PenstockError,
    RequestTooLarge,
    UnsupportedMediaType,
)
from penstock.schema.json_text import decode, refuse_duplicate_keys, why_malformed
from penstock.server.http.encoding import decode_body
from penstock.server.state import State
from penstock.wire.query import printable

FLOW_ID_CHARS_MAX: Final = 128
_FLOW_ID: Final = re.compile(rb"[!-~](?:[ -~]{0,%d}[!-~])?" % (FLOW_ID_CHARS_MAX - 2))


class Arrival(NamedTuple):
    """A request as it is dealt with."""

    scope: Scope
    """With the path that its route goes by: a slash at the end says nothing."""
    flow_id: str
    """By which the logs of all who have a part in one piece of work are put together."""
    refusal: PenstockError | None
    """Why it is refused, whatever it asks for."""
    closes: bool
    """True where the connection has to be closed after the answer: some servers read the body of a request that offers
    an upgrade as another request."""


def arrived(scope: Scope) -> Arrival:
    """Check what holds for every request, whatever its route, by Nakadi's rules."""
    flow_id = encoding = None
    offers_upgrade = has_body = False
    for name, value in scope["headers"]:
        if name == b"x-flow-id":
            flow_id = flow_id or value
        elif name == b"content-encoding":
            encoding = value
        elif name == b"upgrade":
            offers_upgrade = True
        elif name in (b"content-length", b"transfer-encoding"):
            has_body = True
    path: str = scope["path"]
    if len(path) > 1 and path[-1] == "/" and len(path) > len(scope.get("root_path", "")) + 1:
        scope = {**scope, "path": path[:-1]}
    refusal = _refusal(scope["method"], path, encoding)
    return Arrival(scope, _flow_id(flow_id), refusal, closes=offers_upgrade and has_body)


def _flow_id(given: bytes | None) -> str:
    """Return the flow id that a request brings; one of 24 letters and digits where it has none that can be shown."""
    if given is not None and _FLOW_ID.fullmatch(given):
        return given.decode("ascii")
    return os.urandom(12).hex()


def _refusal(method: str, path: str, encoding: bytes | None) -> PenstockError | None:
    if "//" in path:
        return BadParameter(parameter="path", value=printable(path), allowed="one without //")
    if encoding is not None and method != "POST":
        return NotAcceptable.of("encoding-refused", method=method, encoding=printable(encoding.decode("latin-1")))
    return None


AVRO = "application/avro-binary"
_CLOUD_EVENTS = "application/cloudevents"
_LINES = '{"data": {...}, "headers": {"ce_id": ..., "ce_type": ...}}'


def refuse_foreign_body(request: Request) -> None:
    """Raise UnsupportedMediaType where *request* announces events as Avro or as CloudEvents.

    A CloudEvent in structured mode has a media type of its own, one in binary mode has its attributes in headers
    (CloudEvents' HTTP protocol binding, 3.1 and 3.2).
    """
    media_type = media_type_of(request)
    if media_type == AVRO:
        raise UnsupportedMediaType(given="Avro", allowed="application/json")
    if media_type.startswith(_CLOUD_EVENTS) or "ce-specversion" in request.headers:
        raise UnsupportedMediaType(given="a CloudEvent", allowed=f"feed lines to POST /feeds, such as {_LINES}")


def media_type_of(request: Request) -> str:
    """Return the media type that *request* announces, in small letters; "" for none."""
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


BODY_BYTES_MAX: Final = 50 * 1024 * 1024
_DIGITS_MAX: Final = 18
"""Of a length that can be any; Python reads no more than some thousand digits."""


async def read_body(request: Request, state: State, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Return the whole body, decompressed.

    Raises:
        RequestTooLarge: more than *bytes_max*, compressed or not; no more than that is held.
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
                raise RequestTooLarge.of("body-too-large", limit=bytes_max)
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
        raise BadParameter(parameter="Content-Length", value=printable(content_length), allowed=allowed)
    if len(content_length) > _DIGITS_MAX or int(content_length) > bytes_max:
        raise RequestTooLarge.of("body-too-large", limit=bytes_max)
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
        raise BadParameter(f"the body: {error.reason}", parameter="body", allowed="strict JSON") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = f"the body is not JSON: {why_malformed(body, error)}"
        raise BadParameter(detail, parameter="body", allowed="JSON") from None
