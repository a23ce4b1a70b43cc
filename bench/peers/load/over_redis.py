"""Publishes to Redis streams and reads them: bare sockets, and redis-py."""

import socket
import time
from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec
import redis

from bench.events import EVENT_BYTES, event
from bench.peers.load.numbers import number_in
from bench.peers.load.works import (
    BATCH,
    Reader,
    Session,
    Works,
    connect,
    fill_log,
    publish_works,
    read_works,
    repeat,
    serve_works,
)

PAGE: Final = 1000
_FIRST_ID: Final = 10**12
"""Ids of the log that is read all have as many digits, so that a page of it always has the same size."""
_PAGE_BYTES: Final = len(f"*{PAGE}\r\n") + PAGE * (
    len("*2\r\n$15\r\n\r\n*2\r\n$4\r\ndata\r\n\r\n") + 15 + len(f"${EVENT_BYTES}\r\n") + EVENT_BYTES
)


class RedisSession:
    """Adds each event to a stream by `XADD`; those of a batch are sent in one piece."""

    def __init__(self, port: int, stream: str, *, numbered: bool = False) -> None:
        self.socket: socket.socket = connect(port)
        self._stream, self._numbered = stream, numbered

    def request(self, numbers: Sequence[int]) -> bytes:
        return b"".join(
            _command("XADD", self._stream, _entry_id(number) if self._numbered else "*", "data", event(number))
            for number in numbers
        )

    def is_answered(self, received: bytes, events: int) -> bool:
        if received.startswith(b"-") or b"\n-" in received:
            raise RuntimeError(received[:1000].decode())
        return received.count(b"\n") >= 2 * events


class RedisReader:
    """Reads a stream by `XRANGE`."""

    def __init__(self, port: int, events: int) -> None:
        self._socket = connect(port)
        self._events, self._place = events, 0
        self._buffer = memoryview(bytearray(1 << 20))

    def read_page(self) -> int:
        if self._place >= self._events:
            self._place = 0
        self._socket.sendall(_command("XRANGE", "log", _entry_id(self._place), "+", "COUNT", str(PAGE)))
        left = _PAGE_BYTES
        while left:
            size = self._socket.recv_into(self._buffer[:left])
            if not size:
                raise RuntimeError("the server has closed the connection")
            if left == _PAGE_BYTES and not bytes(self._buffer[:size]).startswith(b"*"):
                raise RuntimeError(bytes(self._buffer[:size]).decode())
            left -= size
        self._place += PAGE
        return PAGE


def make(port: int, events: int, *, follows: bool = False) -> Works:
    """Return the works of a server, with a log of so many *events*."""

    def open_session() -> Session:
        return RedisSession(port, "events")

    def open_reader() -> Reader:
        return RedisReader(port, events)

    def open_paced_session() -> Session:
        return RedisSession(port, "paced")

    if follows:
        return {"follow": _follow(port)}
    return {
        **publish_works(open_session),
        **read_works(open_reader),
        "pace": publish_works(open_paced_session)["pace"],
        "fill": lambda events: fill_log(lambda: RedisSession(port, "log", numbered=True), events),
        "client": lambda seconds: _publish_dicts(port, seconds),
        "decode": lambda seconds: _read_decoded(port, events, seconds),
    }


def _publish_dicts(port: int, seconds: float) -> dict[str, float]:
    client = redis.Redis(port=port)
    dicts = [msgspec.json.decode(event(number)) for number in range(BATCH)]

    def publish() -> int:
        pipeline = client.pipeline()
        for each in dicts:
            pipeline.xadd("events", {"data": msgspec.json.encode(each)})
        return len(pipeline.execute())

    return repeat(publish, seconds)


def _read_decoded(port: int, events: int, seconds: float) -> dict[str, float]:
    client = redis.Redis(port=port)
    place = 0

    def read() -> int:
        nonlocal place
        if place >= events:
            place = 0
        entries = cast(list[Any], client.xrange("log", min=_entry_id(place), count=PAGE))
        for _, fields in entries:
            msgspec.json.decode(fields[b"data"])
        place += PAGE
        return len(entries)

    return repeat(read, seconds)


def _follow(port: int) -> Any:
    client = redis.Redis(port=port)

    def follow(last: int, count: int) -> dict[str, Any]:
        seen: dict[int, int] = {}
        while last not in seen or len(seen) < count:
            [(_, entries)] = cast(list[Any], client.xread({"paced": newest[0]}, block=0))
            now = time.monotonic_ns()
            for newest[0], fields in entries:
                seen[number_in(fields[b"data"])] = now
        return {"at": seen}

    entries = cast(list[Any], client.xrevrange("paced", count=1))
    newest: list[bytes | str] = [entries[0][0] if entries else "0"]
    return follow


def _entry_id(number: int) -> str:
    return f"{_FIRST_ID + number}-0"


def _command(*words: str) -> bytes:
    return f"*{len(words)}\r\n{''.join(f'${len(word)}{_END}{word}{_END}' for word in words)}".encode()


_END: Final = "\r\n"


if __name__ == "__main__":
    serve_works(make)
