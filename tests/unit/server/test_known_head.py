"""A connection that repeats a head reads the same requests as one that parses each head anew."""

import asyncio
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn import Config
from uvicorn.server import ServerState

from penstock.server.http.http1 import http1
from penstock.server.http.known_head import KnownHead

HEAD = b"POST /feeds/a?n=1 HTTP/1.1\r\nHost: hub\r\nContent-Length: %d\r\nAccept: */*\r\n\r\n"


class Sink(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 80), "peername": ("127.0.0.1", 5)})
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


Seen = list[tuple[Any, ...]]


class Connection:
    """A connection to an application that notes what it receives; `taken` are the bodies that took the short way."""

    def __init__(self) -> None:
        self.seen: Seen = []
        self.taken: list[bytes] = []
        self.transport = Sink()
        protocol: Any = http1(30.0, 30.0, None, self._take)
        self.protocol = protocol(
            Config(self._serve, interface="asgi3", proxy_headers=False, log_config=None),
            ServerState(),
            {},
            asyncio.get_running_loop(),
        )
        self.protocol.connection_made(self.transport)

    def _take(self, scope: Any, body: bytes, memo: dict[str, Any], exchange: Any) -> bool:
        del scope, memo, exchange
        self.taken.append(body)
        return False

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        shown = {name: scope[name] for name in ("method", "path", "raw_path", "query_string", "headers")}
        self.seen.append((shown, body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def send(self, *pieces: bytes) -> None:
        """Hand over *pieces*, each once the application has done all that it can with those before."""
        for piece in pieces:
            if not self.transport.closed:
                self.protocol.data_received(piece)
            for _ in range(10):
                await asyncio.sleep(0)


def read(requests: Sequence[bytes]) -> tuple[Seen, list[bytes]]:
    """Return what the application sees of *requests* on one connection, and the bodies that took the short way."""

    async def run() -> tuple[Seen, list[bytes]]:
        connection = Connection()
        await connection.send(*requests)
        return connection.seen, connection.taken

    return asyncio.run(run())


def parse(requests: Sequence[bytes]) -> Seen:
    """Return what the application sees of *requests* on one connection that parses each."""
    with patch.object(KnownHead, "learn", return_value=None):
        seen, taken = read(requests)
    assert not taken
    return seen


def test_request_with_a_repeated_head_is_seen_as_the_first_one() -> None:
    bodies = [b"a", b"bc", b"", b"d" * 1000]
    seen, taken = read([HEAD % len(body) + body for body in bodies])

    assert [body for _, body in seen] == bodies
    assert [dict(shown["headers"])[b"content-length"] for shown, _ in seen] == [b"1", b"2", b"0", b"1000"]
    assert taken == bodies[1:]


@pytest.mark.parametrize(
    "other",
    [
        HEAD % 5 + b"ab",
        HEAD % 1 + b"ab",
        HEAD % 2 + b"ab" + HEAD % 1 + b"c",
        HEAD.replace(b"/feeds/a", b"/feeds/b") % 2 + b"ab",
        HEAD.replace(b"*/*", b"*/x") % 2 + b"ab",
        HEAD.replace(b"%d", b"+2") + b"ab",
        HEAD.replace(b"%d", b"2 ") + b"ab",
        HEAD.replace(b"%d", b"0000000002") + b"ab",
        HEAD.replace(b"%d", b"") + b"ab",
        HEAD.replace(b"%d", b"2, 2") + b"ab",
        (HEAD % 2)[:-2] + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        (HEAD % 2)[:-2] + b"Expect: 100-continue\r\n\r\nab",
        b"\r\n" + HEAD % 2 + b"ab",
        HEAD % 2,
    ],
)
def test_request_that_is_not_whole_or_has_another_head_is_parsed(other: bytes) -> None:
    first = HEAD % 1 + b"x"
    seen, taken = read([first, other])

    assert taken == []
    assert seen == parse([first, other])


def test_body_that_comes_after_its_head_is_read_behind_a_known_head() -> None:
    seen, taken = read([HEAD % 1 + b"x", HEAD % 2, b"ab", HEAD % 3 + b"abc"])
    assert [body for _, body in seen] == [b"x", b"ab", b"abc"]
    assert taken == []


def test_head_without_a_body_of_known_length_is_not_learnt() -> None:
    scope: dict[str, Any] = {"headers": [(b"host", b"hub")]}
    assert KnownHead.learn(b"GET / HTTP/1.1\r\nHost: hub\r\n\r\n", scope) is None
    assert KnownHead.learn(b"POST / HTTP/1.1\r\nHost: hub\r\n\r\nContent-Length: 2\r\n", scope) is None


LINES = (
    *(b"Content-Length: 2", b"content-length:3", b"Content-Length: 02", b"Content-Length : 2", b"X: Content-Length: 2"),
    *(b"Host: hub", b"Connection: close", b"Transfer-Encoding: chunked", b"X: \x0b1", b" folded", b"Upgrade: a"),
)
BODIES = (b"", b"ab", b"abc", b"2\r\nab\r\n0\r\n\r\n", b"abPOST / HTTP/1.1\r\nHost: a\r\n\r\n")


@st.composite
def some_request(draw: st.DrawFn) -> bytes:
    lines = [b"Host: hub", b"Content-Length: 2", b"Accept: */*"]
    if draw(st.integers(0, 3)) == 3:
        lines[draw(st.integers(0, 2))] = draw(st.sampled_from(LINES))
    body = draw(st.sampled_from([b"ab"] * len(BODIES) + [*BODIES]))
    return b"\r\n".join([b"POST / HTTP/1.1", *lines, b"", body])


@given(
    st.lists(some_request(), min_size=1, max_size=3).flatmap(
        lambda some: st.lists(st.sampled_from(some), min_size=2, max_size=6)
    )
)
def test_any_requests_are_seen_as_where_each_is_parsed(requests: list[bytes]) -> None:
    assert read(requests)[0] == parse(requests)
