import socket
from contextlib import closing
from pathlib import Path

from penstock.core.cursor import FIRST
from penstock.hub.hub import Hub
from penstock.hub.read import Wanted
from penstock.storage.store import CHUNK_BYTES
from penstock.testing.live_hub import LiveHub, live_hub
from tests.promises.scene import JOINED, NAME, Remote, event, hub_on

EVENTS, EVENT_BYTES = 220, 900_000
BOUND = 2 * CHUNK_BYTES + EVENT_BYTES
GROWTH_MAX = (64 + 48) << 20
"""Of a process that serves a page of 198 MB: some chunks, what allocators keep, the cache of an SQLite connection."""


def test_no_chunk_is_larger_than_its_bound(database_url: str) -> None:
    with hub_on(database_url, partitions=1) as hub:
        _fill(hub)
        lines = hub.open(NAME, None, [Wanted("cursor0", 0, FIRST)], 1000)
        columns = hub.open(NAME, None, [Wanted("cursor0", 0, FIRST)], 1000)
        kept = [0, 0]
        while chunk := hub.next_lines(lines, lines.tracks[0], JOINED):
            assert len(chunk.body) <= BOUND
            kept[0] += chunk.kept
        while column := hub.next_columns(columns, columns.tracks[0]):
            assert len(column.columns.data) <= BOUND
            columns.tracks[0].advance(column.range, column.columns.rows)
            kept[1] += column.columns.rows

    assert kept == [EVENTS, EVENTS]


def test_small_events_do_not_make_large_chunks_of_large_ones(database_url: str) -> None:
    """How many rows a chunk may have is learnt from those before it: the first large ones come as a surprise."""
    with hub_on(database_url, partitions=1) as hub:
        hub.publish(NAME, [event({"n": n}) for n in range(5000)])
        for _ in range(20):
            hub.publish(NAME, [event({"x": "x" * EVENT_BYTES})])
        reading = hub.open(NAME, None, [Wanted("cursor0", 0, FIRST)], 100_000)
        sizes = []
        while chunk := hub.next_lines(reading, reading.tracks[0], JOINED):
            sizes.append(len(chunk.body))

    assert max(sizes) <= BOUND
    assert reading.tracks[0].kept == 5000 + 20


def test_a_process_that_serves_a_large_page_stays_small(database_url: str) -> None:
    with hub_on(database_url, partitions=1) as hub:
        _fill(hub)
    with live_hub(database_url) as served, closing(Remote(served.port)) as remote:
        remote.page("_first", size=1)
        before = _peak(served)

        status, size = _drain(served, f"/feeds/{NAME}?n=1&cursor0=_first&pagesizehint=1000")

        assert status == b"HTTP/1.1 200 OK"
        assert size > EVENTS * EVENT_BYTES
        assert _peak(served) - before < GROWTH_MAX


def test_a_reader_that_does_not_read_makes_the_hub_hold_no_more(database_url: str) -> None:
    with hub_on(database_url, partitions=1) as hub:
        _fill(hub)
    with live_hub(database_url) as served, closing(Remote(served.port)) as remote:
        remote.page("_first", size=1)
        before = _peak(served)
        idle = []
        for _ in range(4):
            connection = _asking(served, f"/feeds/{NAME}?n=1&cursor0=_first&pagesizehint=1000")
            connection.recv(1)  # It has begun to answer.
            idle.append(connection)

        status, _ = _drain(served, f"/feeds/{NAME}?n=1&cursor0=_first&pagesizehint=1000")

        assert status == b"HTTP/1.1 200 OK"
        assert _peak(served) - before < GROWTH_MAX + len(idle) * 4 * BOUND
        for connection in idle:
            connection.close()


def _fill(hub: Hub) -> None:
    for n in range(0, EVENTS, 10):
        hub.publish(NAME, [event({"n": n + i, "x": "x" * EVENT_BYTES}) for i in range(10)])


def _peak(hub: LiveHub) -> int:
    """Return the most memory that the process ever had, in bytes."""
    status = Path(f"/proc/{hub.pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))


def _asking(hub: LiveHub, path: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", hub.port), timeout=60)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n".encode())
    return connection


def _drain(hub: LiveHub, path: str) -> tuple[bytes, int]:
    with _asking(hub, path) as connection:
        first = connection.recv(1 << 16)
        size = len(first)
        while data := connection.recv(1 << 20):
            size += len(data)
    return first.partition(b"\r\n")[0], size
