"""Answers of a scripted hub in JSON, and the requests that it was sent."""

import json
from typing import Any

from tests.unit.wire.script import Reply, Script


def answer(value: Any, status: int = 200) -> Reply:
    """Return an answer with *value* as JSON."""
    return Reply(status, json.dumps(value).encode())


def requests(script: Script) -> list[str]:
    """Return the method and the path of each request."""
    return [f"{request.method} {url}" for request, url in zip(script.requests, script.urls, strict=True)]


def body_of(script: Script) -> Any:
    """Return the JSON of the last request."""
    return json.loads(script.requests[-1].body or b"")
