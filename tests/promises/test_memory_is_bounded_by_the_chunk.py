"""A hub holds a few chunks of a page in memory, however long the page is and however slowly it is read."""

import socket
from contextlib import ExitStack, closing
from pathlib import Path

from penstock.core.log.cursor import FIRST
from penstock.hub.hub import Hub
from penstock.hub.log.read import WantedPartition
from penstock.storage.log.events import CHUNK_BYTES
from penstock.testing.live_hub import LiveHub, live_hub
from tests.promises.scene import JOINED, NAME, Remote, event, hub_on
from tests.reading import open_settled

EVENTS, SERVED_EVENTS, EVENT_BYTES = 30, 150, 900_000
BOUND = 2 * CHUNK_BYTES + EVENT_BYTES
IDLE = 4
GROWTH_MAX = (64 + 48) << 20
"""Of a process that serves 135 MB: some chunks, memory that allocators keep, the cache of an SQLite connection."""


def test_chunks_of_large_events_behind_small_ones_are_bounded(url: str) -> None:
    """The rows of a chunk are estimated from those before it: the first large events come as a surprise."""
    with hub_on(url, partitions=1) as hub:
        hub.log.publish(NAME, [event({"n": n}) for n in range(5000)])
        _fill(hub, EVENTS)
        lines, columns = (
            open_settled(hub, NAME, None, [WantedPartition("cursor0", 0, FIRST)], 100_000) for _ in range(2)
        )
        while chunk := hub.log.reader.read_next_lines(lines, lines.tracks[0], JOINED):
            assert len(chunk.body) <= BOUND
        while column := hub.log.reader.read_next_columns(columns, columns.tracks[0]):
            assert len(column.columns.data) <= BOUND
            columns.tracks[0].advance(column.range, column.columns.rows)

    assert lines.tracks[0].kept == columns.tracks[0].kept == 5000 + EVENTS


def test_process_stays_small_while_it_serves_large_pages(url: str) -> None:
    with hub_on(url, partitions=1) as hub:
        _fill(hub, SERVED_EVENTS)
    path = f"/feeds/{NAME}?n=1&cursor0=_first&pagesizehint="
    with live_hub(url) as served, closing(Remote(served.port)) as remote, ExitStack() as stack:
        remote.page("_first", size=1)
        before = _peak(served)

        status, size = _drain(served, f"{path}1000")

        assert status == b"HTTP/1.1 200 OK"
        assert size > SERVED_EVENTS * EVENT_BYTES > GROWTH_MAX
        assert _peak(served) - before < GROWTH_MAX

        for _ in range(IDLE):  # Readers that do not read on make the hub hold no more.
            connection = stack.enter_context(_asking(served, f"{path}1000"))
            connection.recv(1)  # The hub has begun to answer.

        assert _drain(served, f"{path}10")[0] == b"HTTP/1.1 200 OK"
        assert _peak(served) - before < GROWTH_MAX + IDLE * 4 * BOUND


def _fill(hub: Hub, count: int) -> None:
    for n in range(0, count, 10):
        hub.log.publish(NAME, [event({"n": n + i, "x": "x" * EVENT_BYTES}) for i in range(10)])


def _peak(hub: LiveHub) -> int:
    """Return the most memory that the process ever had, in bytes."""
    status = Path(f"/proc/{hub.pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))


def _asking(hub: LiveHub, path: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", hub.port), timeout=60)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return connection


def _drain(hub: LiveHub, path: str) -> tuple[bytes, int]:
    with _asking(hub, path) as connection:
        first = connection.recv(1 << 16)
        size = len(first)
        while data := connection.recv(1 << 20):
            size += len(data)
    return first.partition(b"\r\n")[0], size
