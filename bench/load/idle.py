"""Readers that wait for events that do not come."""

import socket
from typing import Any

from bench.load.http1 import Connection, get
from bench.load.program import Run, serve


def make(port: int, feed: str, cursor: str, streams: bool = False) -> Run:
    """Nobody waits yet. With *streams* those who wait have streams of server-sent events, else pages."""
    waiting: list[socket.socket] = []

    def run(readers: int, wait: int) -> dict[str, Any]:
        """Have that many more wait for so many seconds; with 0 they have their answer and leave."""
        request = get(f"/feeds/{feed}?n=1&cursor0={cursor}&wait={wait}")
        if streams and wait:
            request = get(f"/feeds/{feed}?cursor0={cursor}", "text/event-stream")
        for _ in range(readers):
            if wait == 0:
                Connection(port).exchange(request)
                continue
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(request)
            waiting.append(connection)
        return {"waiting": len(waiting)}

    return run


if __name__ == "__main__":
    serve(make)
