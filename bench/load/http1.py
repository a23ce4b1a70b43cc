"""HTTP/1.1 over a bare socket: sends prepared bytes, looks at no more of an answer than it needs."""

import socket
from typing import Final, NamedTuple

BUFFER_BYTES: Final = 1 << 20
TAIL_BYTES: Final = 1024
_CHUNKED_END: Final = b"\r\n0\r\n\r\n"


class Answer(NamedTuple):
    """What was kept of an answer."""

    head: bytes
    tail: bytes
    """The last kilobyte, where the cursor is."""
    bytes: int


class Connection:
    """One connection, kept alive."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)

    def exchange(self, request: bytes) -> Answer:
        """Send *request* and take the whole answer.

        Raises:
            RuntimeError: it is not a success.
        """
        self._socket.sendall(request)
        size = self._socket.recv_into(self._buffer)
        head_end = self._buffer.find(b"\r\n\r\n", 0, size)
        while head_end < 0:
            more = self._socket.recv_into(self._view[size:])
            if not more:
                raise RuntimeError("the server has closed the connection")
            size += more
            head_end = self._buffer.find(b"\r\n\r\n", 0, size)
        head = bytes(self._view[: head_end + 4])
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(bytes(self._view[:size]).decode(errors="replace"))
        if head.startswith(b"HTTP/1.1 204"):
            return Answer(head, b"", 0)
        body = size - len(head)
        tail = bytes(self._view[max(0, size - TAIL_BYTES) : size])
        length = header(head, b"content-length")
        while not (tail.endswith(_CHUNKED_END) if length is None else body >= int(length)):
            size = self._socket.recv_into(self._buffer)
            if not size:
                raise RuntimeError("the server has closed the connection")
            body += size
            last = bytes(self._view[max(0, size - TAIL_BYTES) : size])
            tail = last if size >= TAIL_BYTES else (tail + last)[-TAIL_BYTES:]
        return Answer(head, tail, body)


def header(head: bytes, name: bytes) -> bytes | None:
    """Return the value of the header *name*, given in lower case."""
    start = head.lower().find(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    return head[start : head.index(b"\r\n", start)].strip()


def get(path: str, accept: str = "*/*", token: str = "") -> bytes:
    """Return the bytes of a GET, which sends *token* if there is one."""
    credential = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{credential}Accept: {accept}\r\n\r\n".encode()


def post(path: str, body: bytes, token: str = "") -> bytes:
    """Return the bytes of a POST of lines, which sends *token* if there is one."""
    credential = f"Authorization: Bearer {token}\r\n" if token else ""
    length = f"{credential}Content-Length: {len(body)}\r\nContent-Type: application/x-ndjson"
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode() + body


def cursor_in(answer: Answer) -> str:
    """Return the last cursor of a page of lines."""
    start = answer.tail.rindex(b'"cursor":"') + len(b'"cursor":"')
    return answer.tail[start : answer.tail.index(b'"', start)].decode()
