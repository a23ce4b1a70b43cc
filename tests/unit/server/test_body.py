"""Bodies are bounded, whatever is said of their length."""

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from penstock.errors import BadParameter, BodyTooLarge
from penstock.server.body import parsed, read_body
from penstock.server.state import State


def read(declared: str, body: bytes = b"body") -> bytes:
    """Read a body of which it is said that it has *declared* bytes, up to 10; a longer one is not even received."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-length", declared.encode("latin-1"))]
    request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
    return asyncio.run(read_body(request, State(lambda: None), bytes_max=10))  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("declared", ["11", "0011", "1" * 18, "9" * 19, "9" * 5_000])
def test_what_is_said_to_be_too_long_is_refused(declared: str) -> None:
    with pytest.raises(BodyTooLarge):
        read(declared)


def test_body_of_its_declared_length_is_read() -> None:
    assert read("4") == b"body"


@pytest.mark.parametrize("declared", ["3", "10", "²", "1²", "-1", "", "eleven"])
def test_body_of_another_length_than_declared_is_refused(declared: str) -> None:
    with pytest.raises(BadParameter):
        read(declared)


def test_body_that_is_longer_than_declared_is_held_up_to_the_limit() -> None:
    with pytest.raises(BodyTooLarge):
        read("10", b"eleven bytes")


@pytest.mark.parametrize("body", [b"", b"{", b'"\xff"', b"[" * 100_000], ids=["none", "cut off", "no UTF-8", "deep"])
def test_what_is_no_json_is_told(body: bytes) -> None:
    with pytest.raises(BadParameter, match="the body is not JSON: "):
        parsed(body)
