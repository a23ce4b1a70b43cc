"""Consumes a subscription over bare sockets: reads its stream, and commits every batch, each by a request of its own.

It looks at no more of what comes than the cursors.
"""

import queue
import re
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from bench.load.http1 import Connection
from bench.load.program import Run, serve

BUFFER_BYTES: Final = 1 << 20
COMMITTERS: Final = 4
"""So many requests are under way at once where each batch is committed by one of its own."""
TAIL_BYTES: Final = 512
"""More than a cursor has, and less than an event and a cursor."""
GATHER_SECONDS: Final = 0.020
"""Where commits are gathered, the next one follows so long after the last began."""
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
            f"GET /subscriptions/{subscription}/events?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
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


class Committer:
    """Commits cursors in threads, each by a request of its own, or gathered."""

    def __init__(self, connections: Sequence[Connection], stream: Stream, *, gathers: bool) -> None:
        self._stream = stream
        self._gathers = gathers
        self._waiting: queue.Queue[bytes] = queue.Queue()
        self._threads = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in connections]
        self.commits = 0
        for thread in self._threads:
            thread.start()

    def add(self, cursors: list[bytes]) -> None:
        """Have these committed."""
        for each in cursors:
            self._waiting.put(each)

    def end(self) -> None:
        """Wait until all is committed."""
        for _ in self._threads:
            self._waiting.put(b"")
        for thread in self._threads:
            thread.join()

    def _run(self, connection: Connection) -> None:
        began = 0.0
        while cursor := self._waiting.get():
            gathered = [cursor]
            if self._gathers:
                time.sleep(max(0.0, began + GATHER_SECONDS - time.perf_counter()))
                began = time.perf_counter()
                gathered += self._more()
            commit(connection, self._stream, newest(gathered))
            self.commits += 1
            if not gathered[-1]:
                return

    def _more(self) -> list[bytes]:
        return [self._waiting.get() for _ in range(self._waiting.qsize())]


def make(*, port: int, batch: int, window: int, gathers: bool) -> Run:
    """Be ready to consume; where it *gathers*, all that has come in 20 ms is committed by one request."""
    connections = [Connection(port) for _ in range(1 if gathers else COMMITTERS)]

    def run(subscription: str, events: int) -> dict[str, Any]:
        """Consume that many events, all committed; return the rate, and how many commits there were."""
        query = f"batch_limit={batch}&max_uncommitted_events={window}&batch_flush_timeout=1&commit_timeout=60"
        started = time.perf_counter()
        stream = Stream(port, subscription, query)
        committer = Committer(connections, stream, gathers=gathers)
        seen: dict[bytes, int] = {}
        while sum(seen.values()) < events:
            cursors = stream.cursors()
            committer.add(cursors)
            for each in cursors:
                partition, offset = each.split(b'"', 8)[3], each.split(b'"', 8)[7]
                seen[partition] = int(offset.rsplit(b"-", 1)[1]) + 1
        committer.end()
        rate = events / (time.perf_counter() - started)
        stream.close()
        return {"rate": rate, "commits": committer.commits}

    return run


def newest(cursors: list[bytes]) -> list[bytes]:
    """Return the last cursor of each partition, which commits those before it."""
    return list({partition_of(each): each for each in cursors if each}.values())


def partition_of(cursor: bytes) -> bytes:
    """Return the number of a cursor's partition."""
    return cursor.split(b'"', 4)[3]


def commit(connection: Connection, stream: Stream, cursors: list[bytes]) -> None:
    """Commit cursors of a stream."""
    body = b'{"items":[%b]}' % b",".join(cursors)
    head = (
        f"POST /subscriptions/{stream.subscription}/cursors HTTP/1.1\r\nHost: localhost\r\n"
        f"X-Nakadi-StreamId: {stream.id}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.exchange(head.encode() + body)


if __name__ == "__main__":
    serve(make)
