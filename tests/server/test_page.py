"""Pages are sent in bounded memory, and leave nothing behind when their reader leaves."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from penstock.server.state import WORKERS
from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import ARROW, Served, client_of, create, until
from tests.server.process import KEPT_FILES, MIB, Process, leave_no_waits


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub of this file, whose resources can be counted."""
    folder = tmp_path_factory.mktemp("pages")
    with live_hub(f"sqlite:///{folder}/hub.db", log=folder / "hub.log") as running:
        yield running


@pytest.fixture(scope="module")
def large(hub: LiveHub) -> Iterator[Served]:
    """Ten thousand events, forty MiB."""
    with client_of(hub) as http:
        yield fill(create(http))


def fill(feed: Served) -> Served:
    line = b'{"data":{"text":"' + b"x" * 4_000 + b'"}}\n'
    for _ in range(5):
        assert feed.post(line * 2_000).status_code == 200
    return feed


@contextmanager
def send_request(hub: LiveHub, path: str, *, buffer: int | None = None, accept: str = "*/*") -> Iterator[socket.socket]:
    """A connection on which a GET has been sent, and of whose answer nothing has been read."""
    with socket.socket() as connection:
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.connect(("127.0.0.1", hub.port))
        headers = f"Host: localhost\r\nAccept: {accept}\r\nAccept-Encoding: identity"
        connection.sendall(f"GET {path} HTTP/1.1\r\n{headers}\r\n\r\n".encode())
        yield connection


def waiting_path(feed: Served) -> str:
    return f"{feed.path}?n=1&cursor0=_last&wait=60"


def page_path(feed: Served) -> str:
    return f"{feed.path}?n=1&cursor0=_first&pagesizehint=100000"


def test_waits_that_come_and_go_leave_no_waiters_threads_or_files(hub: LiveHub) -> None:
    with client_of(hub) as http:
        feed = create(http)
        leave_no_waits(hub, feed, f"GET {waiting_path(feed)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


@pytest.mark.parametrize("accept", ["*/*", ARROW])
def test_clients_that_leave_within_a_page_leave_no_threads_or_files(hub: LiveHub, large: Served, accept: str) -> None:
    process, before = Process(hub), events_served(large)

    def take_some() -> None:
        with send_request(hub, page_path(large), buffer=64 << 10, accept=accept) as connection:
            assert connection.recv(1_000).startswith(b"HTTP/1.1 200")

    for _ in range(3):
        take_some()
    large.http.get("/health/live")
    files, threads = process.files(), process.threads()
    for _ in range(20):
        take_some()
    until(lambda: process.files() <= files + KEPT_FILES)
    assert process.threads() <= threads + WORKERS
    assert events_served(large) - before < 23 * 4_000, "a page has 10 000"


def events_served(feed: Served) -> float:
    _, _, after = feed.http.get("/metrics").text.partition(f'served_total{{event_type="{feed.name}"}} ')
    return float(after.split()[0]) if after else 0


@pytest.mark.parametrize("accept", ["*/*", ARROW])
def test_clients_that_do_not_read_cost_little_memory_and_hold_up_nobody(
    hub: LiveHub, large: Served, accept: str
) -> None:
    process = Process(hub)
    with ThreadPoolExecutor(8) as pool:  # Every worker thread gets its own memory to work in, and keeps it.
        assert all(size > 38 * MIB for size in pool.map(lambda _: size_of_page(hub, large, accept), range(8)))
    before = process.memory()
    with ExitStack() as stack:
        path = page_path(large)
        stuck = [stack.enter_context(send_request(hub, path, buffer=64 << 10, accept=accept)) for _ in range(10)]
        assert all(connection.recv(1_000).startswith(b"HTTP/1.1 200") for connection in stuck)
        for _ in range(3):  # Meanwhile others read and publish.
            assert len(large.get(n=1, cursor0="_first", pagesizehint=1_000).content) > 3 * MIB
            large.publish_ids([1])
        assert process.memory() < before + 200 * MIB  # Their pages have 400.
        assert min(len(read_to_end(connection)) for connection in stuck[:3]) > 38 * MIB


def size_of_page(hub: LiveHub, feed: Served, accept: str) -> int:
    with client_of(hub) as http:
        return len(http.get(page_path(feed), headers={"accept": accept}).content)


def read_to_end(connection: socket.socket) -> bytes:
    """Read a chunked answer until its last chunk."""
    answer = bytearray()
    while not answer.endswith(b"\r\n0\r\n\r\n"):
        piece = connection.recv(MIB)
        assert piece, "the answer broke off"
        answer += piece
    return bytes(answer)


def test_page_that_fails_in_its_middle_is_cut_off_and_not_ended(hub: LiveHub) -> None:
    with (
        client_of(hub) as http,
        send_request(hub, page_path(feed := fill(create(http))), buffer=64 << 10) as connection,
    ):
        body = bytearray(connection.recv(1_000))
        assert body.startswith(b"HTTP/1.1 200")
        feed.drop()
        while not body.endswith(b"\r\n0\r\n\r\n") and (piece := connection.recv(MIB)):
            body += piece
    # The sweep may remove the events while they are read, or not be there in time: then the page is whole.
    if body.endswith(b"\r\n0\r\n\r\n"):
        assert body.count(b'"data"') == 10_000
    else:
        assert b'"cursor"' not in body


def test_hundreds_of_waiters_are_woken_by_one_event(hub: LiveHub) -> None:
    count = 500
    with client_of(hub) as http, ExitStack() as stack:
        feed = create(http)
        before = Process(hub).memory()
        request = f"GET {waiting_path(feed)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        connections = [stack.enter_context(socket.create_connection(("127.0.0.1", hub.port))) for _ in range(count)]
        for connection in connections:
            connection.sendall(request)
        until(lambda: feed.waiters() == count)
        assert Process(hub).memory() - before < count * 100_000
        feed.publish_ids([7])
        for connection in connections:
            assert b'"id":' in read_to_end(connection).replace(b" ", b"")
        until(lambda: feed.waiters() == 0)
