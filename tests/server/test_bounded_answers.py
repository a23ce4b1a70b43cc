"""Pages and streams are sent in bounded memory, and leave nothing behind when their client leaves."""

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

import pytest

from penstock.server.state import WORKERS
from penstock.testing.live_hub import LiveHub, live_hub
from tests.exhaustive import exhaustive
from tests.served import ARROW, CLOUD_EVENTS, Served, client_of, create, until
from tests.server.streaming import raw_request

MIB = 1 << 20
KEPT_FILES = 3 * WORKERS
"""Each worker may come to keep a connection to the database, of three files; a leak would be of one file each time."""
EVENTS = 10_000


class Process:
    """Threads, files and memory of a hub's process, as the system counts them."""

    def __init__(self, hub: LiveHub) -> None:
        self._at = Path(f"/proc/{hub.pid}")

    def threads(self) -> int:
        return len(list((self._at / "task").iterdir()))

    def files(self) -> int:
        return len(list((self._at / "fd").iterdir()))

    def memory(self) -> int:
        (line,) = [line for line in (self._at / "status").read_text().splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) * 1024


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub of this file, whose resources can be counted; a stream may hold 4 MB there."""
    folder = tmp_path_factory.mktemp("bounded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_STREAM_BYTES", "4000000")
        with live_hub(f"sqlite:///{folder}/hub.db", log=folder / "hub.log") as running:
            yield running


@pytest.fixture(scope="module")
def large(hub: LiveHub) -> Iterator[Served]:
    with client_of(hub) as http:
        yield fill(create(http))


def fill(feed: Served) -> Served:
    """Publish events of forty MB."""
    line = b'{"data":{"text":"' + b"x" * 4_000 + b'"}}\n'
    for _ in range(5):
        assert feed.post(line * (EVENTS // 5)).status_code == 200
    return feed


def get(feed: Served, query: str, accept: str = "*/*") -> bytes:
    headers = f"Host: localhost\r\nAccept: {accept}\r\nAccept-Encoding: identity"
    return f"GET {feed.path}?n=1&{query} HTTP/1.1\r\n{headers}\r\n\r\n".encode()


def wait(feed: Served) -> bytes:
    return get(feed, "cursor0=_last&wait=60")


def page(feed: Served) -> bytes:
    return get(feed, "cursor0=_first&pagesizehint=100000")


def arrow_page(feed: Served) -> bytes:
    return get(feed, "cursor0=_first&pagesizehint=100000", ARROW)


def cloud_event_page(feed: Served) -> bytes:
    return get(feed, "cursor0=_first&pagesizehint=100000", CLOUD_EVENTS)


def stream(feed: Served) -> bytes:
    return raw_request(feed, (0, "BEGIN"), batch_limit=1_000_000, stream_limit=0, batch_flush_timeout=4_000)


ANSWERS = pytest.mark.parametrize("request_of", [page, arrow_page, exhaustive(cloud_event_page), stream])
"""Answers of forty MB. Pages of CloudEvents are sent as other pages are."""
Request = Callable[[Served], bytes]


@contextmanager
def send(hub: LiveHub, request: bytes) -> Iterator[socket.socket]:
    """A connection on which a request was sent, and of whose answer nothing has been read."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        connection.connect(("127.0.0.1", hub.port))
        connection.sendall(request)
        yield connection


def read_to_end(connection: socket.socket) -> bytes:
    """Read a chunked answer until its last chunk."""
    answer = bytearray()
    while not answer.endswith(b"\r\n0\r\n\r\n"):
        piece = connection.recv(MIB)
        assert piece, "the answer broke off"
        answer += piece
    return bytes(answer)


@pytest.mark.parametrize("request_of", [wait, raw_request])
def test_waits_that_come_and_go_leave_no_waiters_threads_or_files(hub: LiveHub, request_of: Request) -> None:
    process = Process(hub)
    threads: list[int] = []

    def wait_and_leave(feed: Served, clients: int) -> None:
        with ExitStack() as stack:
            for _ in range(clients):
                stack.enter_context(send(hub, request_of(feed)))
            until(lambda: feed.waiters() == clients)
            threads.append(process.threads())
        until(lambda: feed.waiters() == 0)

    with client_of(hub) as http:
        feed = create(http)
        wait_and_leave(feed, 50)  # Whatever is made once exists now, but for some of the database's connections.
        files, memory = process.files(), process.memory()
        wait_and_leave(feed, 200)
    until(lambda: process.files() <= files + KEPT_FILES)
    assert max(threads) < 40  # Waiting takes no thread.
    assert process.memory() < memory + 40 * MIB


@ANSWERS
def test_clients_that_leave_within_an_answer_leave_no_threads_or_files(
    hub: LiveHub, large: Served, request_of: Request
) -> None:
    process, before = Process(hub), count_served(large)

    def take_some() -> None:
        with send(hub, request_of(large)) as connection:
            assert connection.recv(1_000).startswith(b"HTTP/1.1 200")

    for _ in range(3):
        take_some()
    large.http.get("/health/live")
    files, threads = process.files(), process.threads()
    for _ in range(20):
        take_some()
    until(lambda: process.files() <= files + KEPT_FILES)
    until(lambda: large.waiters() == 0)
    assert process.threads() <= threads + WORKERS
    assert count_served(large) - before < 23 * 0.4 * EVENTS, "an answer has all of them"


def count_served(feed: Served) -> float:
    _, _, after = feed.http.get("/metrics").text.partition(f'served_total{{event_type="{feed.name}"}} ')
    return float(after.split()[0]) if after else 0


@ANSWERS
def test_clients_that_do_not_read_cost_little_memory_and_hold_up_nobody(
    hub: LiveHub, large: Served, request_of: Request
) -> None:
    process = Process(hub)

    def read(_: int) -> None:
        with send(hub, request_of(large)) as connection:
            size = 0
            while size < 8 * MIB:
                size += len(connection.recv(MIB))

    with ThreadPoolExecutor(8) as pool:  # Every worker thread gets its own memory to work in, and keeps it.
        list(pool.map(read, range(8)))
    before = process.memory()
    with ExitStack() as stack:
        stuck = [stack.enter_context(send(hub, request_of(large))) for _ in range(10)]
        assert all(connection.recv(1_000).startswith(b"HTTP/1.1 200") for connection in stuck)
        # Meanwhile others read and publish.
        assert len(large.get(n=1, cursor0="_first", pagesizehint=1_000).content) > 3 * MIB
        large.publish_ids([1])
        assert process.memory() < before + 200 * MIB  # Their answers have 400.
        if request_of is not stream:
            assert len(read_to_end(stuck[0])) > 38 * MIB


def test_batch_is_flushed_early_when_too_many_bytes_wait(large: Served) -> None:
    given = {"batch_limit": 1_000_000, "stream_limit": 0, "batch_flush_timeout": 4_000}
    headers = {"X-nakadi-cursors": '[{"partition":"0","offset":"BEGIN"}]'}
    with large.http.stream("GET", f"/event-types/{large.name}/events", params=given, headers=headers) as answer:
        sizes = [len(json.loads(line)["events"]) for line in islice(answer.iter_lines(), 9)]
    assert all(900 < size < 2_000 for size in sizes)


def test_page_that_fails_in_its_middle_is_cut_off_and_not_ended(hub: LiveHub) -> None:
    with client_of(hub) as http, send(hub, page(feed := fill(create(http)))) as connection:
        body = bytearray(connection.recv(1_000))
        assert body.startswith(b"HTTP/1.1 200")
        feed.drop()
        while not body.endswith(b"\r\n0\r\n\r\n") and (piece := connection.recv(MIB)):
            body += piece
    # The sweep may remove the events while they are read, or not be there in time: then the page is whole.
    if body.endswith(b"\r\n0\r\n\r\n"):
        assert body.count(b'"data"') == EVENTS
    else:
        assert b'"cursor"' not in body


def test_hundreds_of_waiters_are_woken_by_one_event(hub: LiveHub) -> None:
    count = 300
    with client_of(hub) as http, ExitStack() as stack:
        feed = create(http)
        before = Process(hub).memory()
        connections = [stack.enter_context(send(hub, wait(feed))) for _ in range(count)]
        until(lambda: feed.waiters() == count)
        assert Process(hub).memory() - before < count * 100_000
        feed.publish_ids([7])
        for connection in connections:
            assert b'"id":' in read_to_end(connection).replace(b" ", b"")
        until(lambda: feed.waiters() == 0)
