"""How pages are sent: bounded in memory, and gone as soon as their reader is."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from penstock.server.state import WORKERS
from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import ARROW, Served, client_of, create, until
from tests.server.process import KEPT_FILES, MIB, Process, waits_leave_nothing


@pytest.fixture
def hub(sqlite_url: str, tmp_path: Path) -> Iterator[LiveHub]:
    """A hub that nobody else uses, so that what it holds can be counted."""
    with live_hub(sqlite_url, log=tmp_path / "hub.log") as running:
        yield running


@pytest.fixture
def large(hub: LiveHub) -> Iterator[Served]:
    """Forty MiB of events."""
    with client_of(hub) as http:
        feed = create(http)
        line = b'{"data":{"text":"' + b"x" * 4_000 + b'"}}\n'
        for _ in range(5):
            assert feed.post(line * 2_000).status_code == 200
        yield feed


@contextmanager
def asked(hub: LiveHub, path: str, *, buffer: int | None = None, accept: str = "*/*") -> Iterator[socket.socket]:
    """A connection on which a GET has been sent, and of whose answer nothing has been read."""
    with socket.socket() as connection:
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.connect(("127.0.0.1", hub.port))
        headers = f"Host: hub\r\nAccept: {accept}\r\nAccept-Encoding: identity"
        connection.sendall(f"GET {path} HTTP/1.1\r\n{headers}\r\n\r\n".encode())
        yield connection


def waiting_path(feed: Served) -> str:
    return f"{feed.path}?n=1&cursor0=_last&wait=60"


def page_path(feed: Served) -> str:
    return f"{feed.path}?n=1&cursor0=_first&pagesizehint=100000"


def test_a_waiting_client_that_goes_away_is_noticed_at_once(hub: LiveHub) -> None:
    with client_of(hub) as http:
        feed = create(http)
        with asked(hub, waiting_path(feed)):
            until(lambda: feed.waiters() == 1)
        until(lambda: feed.waiters() == 0)


def test_a_thousand_waits_that_come_and_go_leave_nothing_behind(hub: LiveHub) -> None:
    with client_of(hub) as http:
        feed = create(http)
        waits_leave_nothing(hub, feed, f"GET {waiting_path(feed)} HTTP/1.1\r\nHost: hub\r\n\r\n".encode())


@pytest.mark.parametrize("accept", ["*/*", ARROW])
def test_a_client_that_leaves_in_mid_page_is_noticed_and_nothing_is_left(
    hub: LiveHub, large: Served, accept: str
) -> None:
    process = Process(hub)

    def take_some() -> None:
        with asked(hub, page_path(large), buffer=64 << 10, accept=accept) as connection:
            assert connection.recv(1_000).startswith(b"HTTP/1.1 200")

    for _ in range(3):
        take_some()
    large.http.get("/health/live")
    files, threads = process.files(), process.threads()
    for _ in range(40):
        take_some()
    until(lambda: process.files() <= files + KEPT_FILES)
    assert process.threads() <= threads + WORKERS
    served = large.http.get("/metrics").text
    told = float(served.split(f'served_total{{event_type="{large.name}"}} ')[1].split()[0])
    assert told < 43 * 4_000, "a page has 10 000"


@pytest.mark.parametrize("accept", ["*/*", ARROW])
def test_clients_that_do_not_read_cost_little_memory_and_no_one_waits_for_them(
    hub: LiveHub, large: Served, accept: str
) -> None:
    process = Process(hub)
    with ThreadPoolExecutor(8) as pool:  # Every worker thread gets its own memory to work in, and keeps it.
        assert all(size > 38 * MIB for size in pool.map(lambda _: size_of_page(hub, large, accept), range(16)))
    before = process.memory()
    with ExitStack() as stack:
        path = page_path(large)
        stuck = [stack.enter_context(asked(hub, path, buffer=64 << 10, accept=accept)) for _ in range(10)]
        assert all(connection.recv(1_000).startswith(b"HTTP/1.1 200") for connection in stuck)
        for _ in range(3):  # Meanwhile others are served.
            assert len(large.get(n=1, cursor0="_first", pagesizehint=1_000).content) > 3 * MIB
        assert process.memory() < before + 200 * MIB  # Their pages have 400.
        assert min(len(read_to_end(connection)) for connection in stuck) > 38 * MIB


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


def test_a_page_that_fails_in_its_middle_is_cut_off_and_not_ended(hub: LiveHub, large: Served) -> None:
    with asked(hub, page_path(large), buffer=64 << 10) as connection:
        head = connection.recv(1_000)
        assert head.startswith(b"HTTP/1.1 200")
        large.drop()
        body = bytearray(head)
        while piece := connection.recv(MIB):
            body += piece
            if body.endswith(b"\r\n0\r\n\r\n"):
                break
    # The sweep may remove the events while they are read, or not be there in time: then the page is whole.
    if body.endswith(b"\r\n0\r\n\r\n"):
        assert body.count(b'"data"') == 10_000
    else:
        assert b'"cursor"' not in body


def test_readers_and_publishers_go_on_beside_a_stuck_reader(hub: LiveHub, large: Served) -> None:
    with asked(hub, page_path(large), buffer=64 << 10):
        done = threading.Event()

        def publish() -> None:
            for _ in range(20):
                large.publish_ids([1])
            done.set()

        thread = threading.Thread(target=publish)
        thread.start()
        thread.join(timeout=300)
        assert done.is_set()


def test_two_thousand_waiters_are_woken_by_one_event(hub: LiveHub) -> None:
    count = 2_000
    with client_of(hub) as http:
        feed = create(http)
        before = Process(hub).memory()
        connections = []
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", hub.port))
            connection.sendall(f"GET {waiting_path(feed)} HTTP/1.1\r\nHost: hub\r\n\r\n".encode())
            connections.append(connection)
        until(lambda: feed.waiters() == count)
        assert Process(hub).memory() - before < count * 100_000
        feed.publish_ids([7])
        for connection in connections:
            with connection:
                assert b'"id":' in read_to_end(connection).replace(b" ", b"")
        until(lambda: feed.waiters() == 0)
