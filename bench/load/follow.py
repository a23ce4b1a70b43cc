"""Follows a feed as a waiting reader does, and notes when each event has arrived."""

import re
import socket
import time
from typing import Any

from bench.load.program import Run, serve

WAIT_SECONDS = 30
_NUMBER = re.compile(rb'"order_id":"(\d+)"')
_CURSOR = re.compile(rb'"cursor":"([^"]+)"')
_END = b"\r\n0\r\n\r\n"


def make(port: int, feed: str) -> Run:
    """Stand at the end of the feed."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def page(cursor: str, options: str) -> bytes:
        path = f"/feeds/{feed}?n=1&cursor0={cursor}{options}"
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        received = b""
        while not received.endswith(_END):
            more = connection.recv(1 << 16)
            if not more:
                raise RuntimeError("the server has closed the connection")
            received += more
        if not received.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(received.decode())
        return received

    def cursor_of(received: bytes) -> str:
        cursor: bytes = _CURSOR.findall(received)[-1]
        return cursor.decode()

    cursor = cursor_of(page("_last", "&pagesizehint=0"))

    def run(last: int, count: int = 1) -> dict[str, Any]:
        """Follow up to event number *last*, and until there are *count*: events of several connections change places.

        Give each event's number and when its page had come, in nanoseconds.
        """
        nonlocal cursor
        seen: dict[int, int] = {}
        while last not in seen or len(seen) < count:
            received = page(cursor, f"&wait={WAIT_SECONDS}")
            now = time.monotonic_ns()
            cursor = cursor_of(received)
            seen.update((int(number), now) for number in _NUMBER.findall(received))
        return {"at": seen}

    return run


if __name__ == "__main__":
    serve(make)
