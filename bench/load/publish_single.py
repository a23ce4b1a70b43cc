"""Publishes single events over many connections at once: each sends its next one when the last is on disk."""

import asyncio
import time
from functools import partial
from typing import Any, cast

import uvloop

from bench.events import line
from bench.load.http1 import header, post
from bench.load.program import Run, serve


class Publisher(asyncio.Protocol):
    """One of them."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._received = b""
        self._until = 0.0
        self._transport: asyncio.Transport
        self.count = 0
        self.done: asyncio.Future[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def begin(self, until: float) -> None:
        self._until, self.count = until, 0
        self.done = asyncio.get_running_loop().create_future()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or len(body) < int(header(head + b"\r\n", b"content-length") or 0):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(self._received.decode(errors="replace")))
            return
        self._received = b""
        self.count += 1
        if time.perf_counter() < self._until:
            self._transport.write(self._request)
        else:
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or RuntimeError("the server has closed the connection"))


def _itself(publisher: Publisher) -> Publisher:
    return publisher


def make(port: int, feed: str, connections: int, token: str = "") -> Run:
    """Publish over that many *connections*, with *token* if there is one."""
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    publishers = [Publisher(post(f"/feeds/{feed}", line(number).encode(), token)) for number in range(connections)]
    for publisher in publishers:
        loop.run_until_complete(loop.create_connection(partial(_itself, publisher), "127.0.0.1", port))

    async def publish(seconds: float) -> float:
        started = time.perf_counter()
        for publisher in publishers:
            publisher.begin(started + seconds)
        await asyncio.gather(*(publisher.done for publisher in publishers))
        return sum(publisher.count for publisher in publishers) / (time.perf_counter() - started)

    def run(seconds: float) -> dict[str, Any]:
        return {"rate": loop.run_until_complete(publish(seconds))}

    return run


if __name__ == "__main__":
    serve(make)
