"""A client that sends bytes as they are given, and takes no answer that breaks HTTP/1.1 (RFC 9112)."""

import contextlib
import re
import select
import socket
import struct
from typing import Final, NamedTuple, Self

ANSWER_SECONDS_MAX: Final = 300.0
"""A front that has neither answered nor closed by then has failed."""

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2}) [ -~]*")
_FIELD: Final = re.compile(rb"([!#-'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ -~\t]*?)[ \t]*")


class Answer(NamedTuple):
    """One answer, as it was framed."""

    status: int
    headers: dict[str, str]
    body: bytes
    interim: bool = False
    """Whether 100 (Continue) came before it."""

    @property
    def flow(self) -> str:
        """The flow id of the request that it answers."""
        return self.headers.get("x-flow-id", "")


class ConnectionEnded(Exception):
    """The front closed the connection where an answer could have begun."""


class Connection:
    """A connection to a front, with the bytes that were read and are not parsed yet."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, *segments: bytes) -> None:
        """Send each segment by itself. A front that has closed gets no more of them, which is its right."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for segment in segments:
                self._socket.sendall(segment)

    def half_close(self) -> None:
        """Say that no more will be sent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Cut the connection as a client does that was killed."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def hears_within(self, seconds: float) -> bool:
        """Wait for the front to answer or to close, and return whether it has."""
        return bool(self._read or select.select([self._socket], [], [], seconds)[0])

    def answer(self, *, to_head: bool = False) -> Answer:
        """Read one answer; *to_head*: it answers HEAD, so it has no body.

        Raises:
            ConnectionEnded: the front closed the connection instead.
        """
        status, headers = self._head()
        interim = status == 100
        if interim:
            status, headers = self._head()
        assert status >= 200, f"an answer with status {status}"
        if status in (204, 304) or to_head:
            assert status != 204 or not headers.keys() & {"content-length", "transfer-encoding"}, headers
            return Answer(status, headers, b"", interim)
        return Answer(status, headers, self._body(headers), interim)

    def interim(self) -> int:
        """Read a head that no body follows, and return its status."""
        return self._head()[0]

    def answers(self) -> list[Answer]:
        """Read answers until the front closes the connection."""
        answers = []
        with contextlib.suppress(ConnectionEnded):
            while True:
                answers.append(self.answer())
        return answers

    def rest(self) -> bytes:
        """Return all bytes until the front closes the connection."""
        while self._receive():
            pass
        rest, self._read = self._read, b""
        return rest

    def _head(self) -> tuple[int, dict[str, str]]:
        while b"\r\n\r\n" not in self._read:
            if not self._receive():
                if self._read:
                    raise AssertionError(f"the connection ended in the middle of a head: {self._read[-1_000:]!r}")
                raise ConnectionEnded
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        status = _STATUS_LINE.fullmatch(first)
        assert status, f"no status line: {first[:1_000]!r}"
        headers: dict[str, str] = {}
        for line in lines:
            field = _FIELD.fullmatch(line)
            assert field, f"no header: {line[:1_000]!r}"
            name = field[1].decode().lower()
            assert name not in headers or name not in ("content-length", "transfer-encoding"), f"{name} twice"
            headers[name] = field[2].decode()
        return int(status[1]), headers

    def _body(self, headers: dict[str, str]) -> bytes:
        if "transfer-encoding" in headers:
            assert headers["transfer-encoding"].lower() == "chunked", headers
            assert "content-length" not in headers, headers
            return b"".join(iter(self._chunk, b""))
        if "content-length" in headers:
            assert headers["content-length"].isdecimal(), headers
            return self._exactly(int(headers["content-length"]))
        return self.rest()

    def _chunk(self) -> bytes:
        size = re.fullmatch(rb"([0-9A-Fa-f]+)(;[^\r\n]*)?", self._line())
        assert size, "no size of a chunk"
        chunk = self._exactly(int(size[1], 16))
        assert self._line() == b"", "the chunk is longer than its size, or a trailer follows"
        return chunk

    def _line(self) -> bytes:
        while b"\r\n" not in self._read:
            assert self._receive(), f"the connection ended in the middle of a line: {self._read[-1_000:]!r}"
        line, _, self._read = self._read.partition(b"\r\n")
        return line

    def _exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            assert self._receive(), f"the connection ended {size - len(self._read)} bytes before the answer's end"
        found, self._read = self._read[:size], self._read[size:]
        return found

    def _receive(self) -> bool:
        try:
            received = self._socket.recv(1 << 16)
        except ConnectionResetError:  # A front may close before it has read all, which resets the connection.
            return False
        except TimeoutError:
            said = f"neither an answer nor an end within {ANSWER_SECONDS_MAX:.0f} s, after {self._read[-1_000:]!r}"
            raise AssertionError(said) from None
        self._read += received
        return bool(received)
