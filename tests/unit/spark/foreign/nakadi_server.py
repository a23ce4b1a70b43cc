"""A Nakadi server on the loopback interface, with the answers that a Penstock hub never gives."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

from penstock.spark.foreign.nakadi import SubscriptionQuery
from tests.answering import answering

BEFORE = "001-0001--1"


def offset(number: int) -> str:
    return f"001-0001-{number:018}" if number >= 0 else BEFORE


def line(last: int, count: int = 0, *, partition: int = 0, debug: str | None = None) -> bytes:
    """A batch of *count* events up to the offset *last*; without events a sign of life."""
    cursor = {"partition": str(partition), "offset": offset(last), "event_type": "a.b", "cursor_token": f"t{last}"}
    found: dict[str, Any] = {"cursor": cursor}
    if count:
        found["events"] = [{"n": number} for number in range(last - count + 1, last + 1)]
    if debug is not None:
        found["info"] = {"debug": debug}
    return json.dumps(found).encode() + b"\n"


class NakadiServer:
    """The answers that the server gives, and the requests that it received."""

    def __init__(self) -> None:
        self.url = ""
        self.committed: dict[str, str] = {}
        """By partition of a.b; nothing before the first stream."""
        self.ends = {"0": BEFORE}
        self.streams: list[list[bytes]] = []
        """The lines of each stream, one after the other. The last one stays open, the others end."""
        self.answers: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        """Exceptional answers, by method and the end of a path: statuses and bodies, each used once."""
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.stopped = threading.Event()

    def asked_of(self, method: str, end: str) -> list[Any]:
        """The bodies of what was asked so."""
        return [body for given, path, body in self.asked if given == method and path.partition("?")[0].endswith(end)]

    def query(self, **others: Any) -> SubscriptionQuery:
        chosen: dict[str, Any] = {"retry_timeout": 0.0, "landing_location": "/nowhere", "subscription": "s"} | others
        return SubscriptionQuery(url=self.url, **chosen)


@contextmanager
def nakadi_server() -> Iterator[NakadiServer]:
    """Have a server answer as long as the block runs."""
    told = NakadiServer()

    class Handler(_Handler):
        serving = told

    with answering(Handler) as told.url:
        try:
            yield told
        finally:
            told.stopped.set()


class _Handler(BaseHTTPRequestHandler):
    serving: ClassVar[NakadiServer]

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PATCH(self) -> None:
        self._answer("PATCH")

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self, method: str) -> None:
        told, path = self.serving, self.path.partition("?")[0]
        size = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(size)) if size else None
        told.asked.append((method, self.path, body))
        told.headers.append({name.lower(): value for name, value in self.headers.items()})
        for (given, end), answers in told.answers.items():
            if given == method and path.endswith(end) and answers:
                self._send(*answers.pop(0))
                return
        if method == "PATCH":
            told.committed |= {each["partition"]: each["offset"] for each in body["items"]}
        if path.endswith("/events"):
            self._stream()
        elif method == "GET" and path.endswith("/cursors"):
            items = [{"event_type": "a.b", "partition": at, "offset": to} for at, to in told.committed.items()]
            self._send(200, {"items": items})
        elif path.endswith("/partitions"):
            self._send(200, [_partition(*each) for each in told.ends.items()])
        elif path.endswith("/cursors"):
            self._send(204, None)
        else:
            self._send(200, {"id": "s", "event_types": ["a.b"]})

    def _send(self, status: int, body: Any) -> None:
        self.send_response(status)
        kind = "application/json" if status < 400 else "application/problem+json"
        if status == 302:
            self.send_header("Location", body)
            body = None
        if isinstance(body, str):
            body = {"title": "Refused", "status": status, "detail": body}
        said = b"" if body is None else json.dumps(body).encode()
        self.send_header("Content-Type", f"{kind};charset=UTF-8")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def _stream(self) -> None:
        told = self.serving
        lines = told.streams.pop(0) if told.streams else []
        is_last = not told.streams
        told.committed = told.committed or dict.fromkeys(told.ends, BEFORE)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-json-stream")
        self.send_header("X-Nakadi-StreamId", f"stream-{len(told.asked_of('GET', '/events'))}")
        self.end_headers()
        for each in lines:
            self.wfile.write(each)
            self.wfile.flush()
        if is_last:
            told.stopped.wait(300)


def _partition(name: str, newest: str) -> dict[str, str]:
    return {"partition": name, "oldest_available_offset": offset(0), "newest_available_offset": newest}
