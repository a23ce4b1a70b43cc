"""Publishes over HTTP and reads pages, of Penstock, of the bare app, and of nginx."""

import socket
from collections.abc import Sequence
from typing import Final

import msgspec

from bench.events import FEED, event, line
from bench.load.follow import make as follow
from bench.load.http1 import Connection, get, header, post
from bench.load.read import Pages
from bench.peers.load.works import (
    BATCH,
    Reader,
    Session,
    Works,
    connect,
    publish_works,
    read_works,
    repeat,
    serve_works,
)
from penstock.client import Client

PAGE: Final = 1000


class HttpSession:
    """Publishes to one path."""

    def __init__(self, port: int, path: str, *, bare: bool) -> None:
        self.socket: socket.socket = connect(port)
        self._path, self._bare = path, bare

    def request(self, numbers: Sequence[int]) -> bytes:
        """The bare app takes events as lines, Penstock takes lines that hold events."""
        lines = (f"{event(number)}\n" if self._bare else line(number) for number in numbers)
        return post(self._path, "".join(lines).encode())

    def is_answered(self, received: bytes, events: int) -> bool:
        del events
        head, found, body = received.partition(b"\r\n\r\n")
        if not found or len(body) < int(header(head + b"\r\n", b"content-length") or 0):
            return False
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(received.decode(errors="replace"))
        return True


class FeedReader:
    """Reads a feed of Penstock in pages."""

    def __init__(self, port: int, events: int) -> None:
        self._connection = Connection(port)
        self._pages = Pages("v1", FEED, PAGE, "_first")
        self._events, self._place = events, 0

    def read_page(self) -> int:
        if self._place >= self._events:
            self._pages.restart()
            self._place = 0
        self._pages.advance(self._connection.exchange(self._pages.request()))
        self._place += PAGE
        return PAGE


class FileReader:
    """Reads the files that nginx serves, each with one page."""

    def __init__(self, port: int, events: int) -> None:
        self._connection = Connection(port)
        self._files, self._next = events // PAGE, 0

    def read_page(self) -> int:
        self._connection.exchange(get(f"/{self._next}"))
        self._next = (self._next + 1) % self._files
        return PAGE


def make(port: int, kind: str, events: int, *, follows: bool = False) -> Works:
    """Return the works for `penstock`, `bare` or `nginx`, at that port, with a log of so many *events*."""
    path = "/events" if kind == "bare" else f"/feeds/{FEED}"

    def open_session() -> Session:
        return HttpSession(port, path, bare=kind == "bare")

    def open_reader() -> Reader:
        return FileReader(port, events) if kind == "nginx" else FeedReader(port, events)

    if follows:
        return {"follow": follow(port, FEED)}
    if kind == "nginx":
        return read_works(open_reader)
    if kind == "bare":
        return publish_works(open_session)
    return {
        **publish_works(open_session),
        **read_works(open_reader),
        "client": lambda seconds: _publish_dicts(port, seconds),
        "decode": lambda seconds: _read_decoded(port, events, seconds),
    }


def _publish_dicts(port: int, seconds: float) -> dict[str, float]:
    dicts = [msgspec.json.decode(event(number)) for number in range(BATCH)]
    with Client(f"http://127.0.0.1:{port}") as client:

        def publish() -> int:
            client.publish(FEED, dicts)
            return BATCH

        return repeat(publish, seconds)


def _read_decoded(port: int, events: int, seconds: float) -> dict[str, float]:
    with Client(f"http://127.0.0.1:{port}") as client:
        follow_pages = client.feed(FEED).follow()
        count = 0

        def read() -> int:
            nonlocal follow_pages, count
            if count >= events:
                follow_pages.close()
                follow_pages, count = client.feed(FEED).follow(), 0
            page = next(follow_pages)
            for each in page.events:
                assert each.data
            count += len(page.events)
            return len(page.events)

        try:
            return repeat(read, seconds)
        finally:
            follow_pages.close()


if __name__ == "__main__":
    serve_works(make)
