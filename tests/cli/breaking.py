"""What stands between two that talk, and breaks their connection when it is told to."""

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler

from tests.answering import answering


@contextmanager
def breaking_at(hub_port: int, number: int, *, passed_on: bool) -> Iterator[str]:
    """Yield the URL of a proxy before the hub that breaks the connection of one publish instead of answering it.

    Args:
        hub_port: where the hub listens on the loopback interface.
        number: which publish, counted from 1.
        passed_on: whether the hub gets it, and has answered it, before the connection breaks.
    """
    publishes = iter(range(1, 1_000_000))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(*self._asked(b""))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            breaks = self.path.startswith("/feeds/") and next(publishes) == number
            if not breaks or passed_on:
                answer = self._asked(body)
            if breaks:
                self.close_connection = True
            else:
                self._answer(*answer)

        def _asked(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
            with closing(http.client.HTTPConnection("127.0.0.1", hub_port, timeout=60)) as hub:
                hub.request(self.command, self.path, body or None, dict(self.headers))
                answer = hub.getresponse()
                return answer, answer.read()

        def _answer(self, answer: http.client.HTTPResponse, body: bytes) -> None:
            self.send_response(answer.status)
            for name in ("content-type", "content-encoding", "retry-after"):
                if value := answer.headers[name]:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: what happens is told by the command under test."""

    with answering(Handler) as url:
        yield url


@contextmanager
def open_for(port: int, connections: int) -> Iterator[int]:
    """Yield a port that leads to *port* for so many connections, and from then on is closed."""
    listener = socket.create_server(("127.0.0.1", 0))
    led: list[threading.Thread] = []

    def open_door() -> None:
        with listener, contextlib.suppress(OSError):
            for _ in range(connections):
                theirs, _ = listener.accept()
                led.append(threading.Thread(target=_lead, args=(theirs, port)))
                led[-1].start()

    door = threading.Thread(target=open_door)
    door.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        door.join()
        for each in led:
            each.join()


def _lead(theirs: socket.socket, port: int) -> None:
    with theirs, socket.create_connection(("127.0.0.1", port)) as ours:
        back = threading.Thread(target=_pump, args=(ours, theirs))
        back.start()
        _pump(theirs, ours)
        back.join()


def _pump(given: socket.socket, taken: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := given.recv(65_536):
            taken.sendall(data)
    for each in (given, taken):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
