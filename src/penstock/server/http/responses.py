"""JSON answers, and warnings beside them.

A warning tells the client that the hub has done what was asked, and that something about it may be unexpected.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.core.registry.event_type import without_effect
from penstock.server.http.encoding import choose_encoding, encoder

COMPRESSED_FROM_BYTES: Final = 1_024
"""What is smaller goes in one packet anyway."""


class JsonResponse(Response):
    """JSON, compressed if it is large enough and the client accepts that."""

    media_type = "application/json"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it (ASGI)."""
        self.headers.add_vary_header("Accept-Encoding")
        encoding = choose_encoding(Headers(scope=scope).get("accept-encoding"))
        if encoding is not None and len(self.body) >= COMPRESSED_FROM_BYTES:
            self.body = await run_in_threadpool(_compressed, bytes(self.body), encoding)
            self.headers["Content-Encoding"] = encoding
            self.headers["Content-Length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def _compressed(body: bytes, encoding: str) -> bytes:
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


def warn_of_no_effect(answer: Response, name: str, given: Mapping[str, Any]) -> Response:
    """Return *answer* with a warning for each member of the definition *given* that has no effect yet."""
    return warn(answer, (f"{name}: {each}" for each in without_effect(given)))
