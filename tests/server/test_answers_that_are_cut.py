"""A client that takes nothing of its answer is given up, and the log says so, as no error."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import Served, client_of, create, until
from tests.server.streaming import raw_request
from tests.times import VARIABLE

MIB = 1 << 20
STALL_SECONDS = 1.0
STALLS = {f"penstock.server.log.{module}.STALL_TIMEOUT": STALL_SECONDS for module in ("feeds", "event_stream")}
EVENTS = 5_000
"""Of 4 kB: many times what the sockets' buffers hold."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "hub.log"


@pytest.fixture
def hub(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveHub]:
    monkeypatch.setenv(VARIABLE, json.dumps(STALLS))
    with live_hub(f"sqlite:///{tmp_path}/hub.db", log=log) as running:
        yield running


@contextmanager
def connect(hub: LiveHub) -> Iterator[socket.socket]:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        connection.settimeout(300)
        connection.connect(("127.0.0.1", hub.port))
        yield connection


def page(feed: Served) -> bytes:
    query = f"n=1&cursor0=_first&pagesizehint={EVENTS}"
    return f"GET {feed.path}?{query} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\n\r\n".encode()


def stream(feed: Served) -> bytes:
    return raw_request(feed, (0, "BEGIN"), batch_limit=EVENTS, stream_limit=0)


def receive_to_end(connection: socket.socket) -> bytes:
    """Return what still comes until the hub closes the connection."""
    received = bytearray()
    try:
        while piece := connection.recv(MIB):
            received += piece
    except ConnectionResetError:
        pass
    return bytes(received)


@pytest.mark.parametrize("request_of", [page, stream])
def test_answer_to_a_client_that_takes_nothing_is_cut_and_logged_without_an_error(
    hub: LiveHub, log: Path, request_of: Callable[[Served], bytes]
) -> None:
    with client_of(hub) as http:
        feed = create(http)
        line = b'{"data":{"text":"' + b"x" * 4_000 + b'"}}\n'
        assert feed.post(line * EVENTS).status_code == 200
        with connect(hub) as connection:
            connection.sendall(request_of(feed))
            until(lambda: "the answer was cut" in log.read_text(encoding="utf-8"))
            answer = receive_to_end(connection)

    assert answer.startswith(b"HTTP/1.1 200")
    assert not answer.endswith(b"\r\n0\r\n\r\n")
    text = log.read_text(encoding="utf-8")
    [said] = [each for each in text.splitlines() if "the answer was cut" in each]
    assert "the client takes nothing" in said
    assert "info" in said
    assert "error" not in text.lower()
