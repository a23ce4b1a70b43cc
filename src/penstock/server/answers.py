"""Answers in JSON."""

from typing import Any

import msgspec
from starlette.responses import Response


def json_response(content: Any, status: int = 200) -> Response:
    """Return *content* as JSON."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")
