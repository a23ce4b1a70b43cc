"""The protocol of one connection, where only the order of the event loop's turns decides."""

import asyncio
import socket
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from penstock.server.http import http1 as module
from penstock.server.http.http1 import BUFFERED_BYTES_MAX, SLICE_BYTES, http1

SENT_AT_FIRST = 4 * BUFFERED_BYTES_MAX - 1024
"""Bytes of a body that the transport delivers at once, with the head: uvloop and asyncio read 256 KiB."""
SENT = 16 << 20
"""More than the buffers of two sockets hold."""


async def answer_early(scope: Any, receive: Any, send: Any) -> None:
    """Answer once more of the body has been read than is held, and before the last slice of what came at first."""
    for _ in range(1 + BUFFERED_BYTES_MAX // SLICE_BYTES):
        await asyncio.sleep(0)
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def test_body_is_read_to_its_end_if_it_is_answered_between_two_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TURN_SECONDS", -1.0)  # Each slice has a turn of its own, as on a busy machine.

    async def send_all() -> bytes:
        loop = asyncio.get_running_loop()
        protocol, state = http1(30.0, 30.0), ServerState()
        config = Config(answer_early)
        server = await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)  # type: ignore[call-arg]
        async with server:
            with socket.create_connection(server.sockets[0].getsockname()) as client:
                client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % SENT)
                client.sendall(bytes(SENT_AT_FIRST))
                client.settimeout(10)
                try:
                    await asyncio.to_thread(client.sendall, bytes(SENT - SENT_AT_FIRST))
                    answer = await asyncio.to_thread(client.recv, 1000)
                finally:
                    for connection in list(state.connections):
                        connection.transport.abort()
            await asyncio.sleep(0.01)  # The transport calls `connection_lost` in the next turn.
            assert not state.connections
            return answer

    assert asyncio.run(send_all()).startswith(b"HTTP/1.1 413 ")
