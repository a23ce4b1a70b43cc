"""Consumes a subscription over bare sockets: reads its stream, and commits every batch, each by a request of its own.

It looks at no more of what comes than the cursors.
"""

import queue
import re
import socket
import threading
import time
from typing import Any, Final

from bench.load.http1 import Connection
from bench.load.program import Run, serve

BUFFER_BYTES: Final = 1 << 20
COMMITTERS: Final = 4
"""So many requests are under way at once where each batch is committed by one of its own."""
TAIL_BYTES: Final = 512
"""More than a cursor has, and less than an event and a cursor."""
_CURSOR: Final = re.compile(
    rb'\{"cursor":(\{"partition":"\d+","offset":"001-[0-9a-f]{4}-\d+",'
    rb'"event_type":"[^"]+","cursor_token":"[^"]+"\}),"events"'
)


class Stream:
    """One stream of a subscription."""

    def __init__(self, port: int, subscription: str, query: str) -> None:
        self.subscription = subscription
        self.text = b""
        """What has come last."""
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.sendall(
            f"GET /subscriptions/{subscription}/events?{query} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()
        )
        self._buffer = bytearray(BUFFER_BYTES)
        head = self._socket.recv(1 << 16)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        found = re.search(rb"x-nakadi-streamid: ([^\r]+)\r\n", head)
        assert found is not None
        self.id = found[1].decode()
        self._rest = head[head.index(b"\r\n\r\n") + 4 :]

    def fileno(self) -> int:
        """Return that of its socket."""
        return self._socket.fileno()

    def cursors(self) -> list[bytes]:
        """Wait for more; return the cursors that have come with it."""
        size = self._socket.recv_into(self._buffer)
        if not size:
            raise RuntimeError("the hub has ended the stream")
        self.text = bytes(memoryview(self._buffer)[:size])
        text = self._rest + self.text
        found, stop = [], 0
        for each in _CURSOR.finditer(text):
            found.append(each[1])
            stop = each.end()
        self._rest = text[max(stop, len(text) - TAIL_BYTES) :]
        return found

    def close(self) -> None:
        """End it."""
        self._socket.close()


def make(*, port: int, batch: int, window: int, gathers: bool) -> Run:
    """Be ready to consume; where it *gathers*, what has come meanwhile is committed by one request."""
    connections = [Connection(port) for _ in range(1 if gathers else COMMITTERS)]

    def run(subscription: str, events: int) -> dict[str, Any]:
        """Consume that many events, all committed; return the rate, and how many commits there were."""
        query = f"batch_limit={batch}&max_uncommitted_events={window}&batch_flush_timeout=1&commit_timeout=60"
        started = time.perf_counter()
        stream = Stream(port, subscription, query)
        waiting: queue.Queue[list[bytes]] = queue.Queue()
        commits = []

        def commit_all(connection: Connection) -> None:
            while cursors := waiting.get():
                while gathers and not waiting.empty():
                    cursors += waiting.get()
                commit(connection, stream, [each for each in cursors if each])
                commits.append(cursors)
                if gathers and not cursors[-1]:
                    return

        threads = [threading.Thread(target=commit_all, args=(each,), daemon=True) for each in connections]
        for thread in threads:
            thread.start()
        seen: dict[bytes, int] = {}
        while sum(seen.values()) < events:
            if cursors := stream.cursors():
                for each in cursors:
                    waiting.put([each])
                    partition, offset = each.split(b'"', 8)[3], each.split(b'"', 8)[7]
                    seen[partition] = int(offset.rsplit(b"-", 1)[1]) + 1
        for _ in threads:
            waiting.put([b""] if gathers else [])
        for thread in threads:
            thread.join()
        rate = events / (time.perf_counter() - started)
        stream.close()
        return {"rate": rate, "commits": len(commits)}

    return run


def commit(connection: Connection, stream: Stream, cursors: list[bytes]) -> None:
    """Commit cursors of a stream."""
    body = b'{"items":[%b]}' % b",".join(cursors)
    head = (
        f"POST /subscriptions/{stream.subscription}/cursors HTTP/1.1\r\nHost: bench\r\n"
        f"X-Nakadi-StreamId: {stream.id}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.exchange(head.encode() + body)


if __name__ == "__main__":
    serve(make)
