"""Bodies of requests: their declared and real length, and JSON."""

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from penstock.errors import BadParameter, PenstockError
from penstock.server.http.requests import parse_json, read_body
from penstock.server.state import State
from tests.failing import has_code


def read(declared: str, body: bytes = b"body") -> bytes:
    """Read a body with *declared* as its length, up to 10 bytes."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-length", declared.encode("latin-1"))]
    request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
    return asyncio.run(read_body(request, State(lambda: None).run, bytes_max=10))  # type: ignore[arg-type,return-value]


def test_body_of_its_declared_length_is_read() -> None:
    assert read("4") == b"body"


@pytest.mark.parametrize(
    ("declared", "body", "code"),
    [
        *((declared, b"body", "body-too-large") for declared in ("11", "0011", "1" * 18, "9" * 19, "9" * 5_000)),
        *((declared, b"body", "bad-parameter") for declared in ("3", "10", "²", "1²", "-1", "", "eleven")),
        ("10", b"eleven bytes", "body-too-large"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_body_that_is_too_long_or_not_as_long_as_declared_is_refused(declared: str, body: bytes, code: str) -> None:
    with pytest.raises(PenstockError, check=has_code(code)):
        read(declared, body)


@pytest.mark.parametrize("body", [b"", b"{", b'"\xff"', b"[" * 100_000], ids=["none", "cut off", "no UTF-8", "deep"])
def test_body_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(BadParameter, match="the body is not JSON: "):
        parse_json(body)
