"""Threads, files and memory of a hub's process, so that a test can show that nothing is left behind."""

import socket
from contextlib import ExitStack
from pathlib import Path

from penstock.server.state import WORKERS
from penstock.testing.live_hub import LiveHub
from tests.served import Served, until

MIB = 1 << 20
KEPT_FILES = 3 * WORKERS
"""Each worker may come to keep a connection to the database, of three files; a leak would be of one file each time."""


class Process:
    """Threads, files and memory of a process, as the system counts them."""

    def __init__(self, hub: LiveHub) -> None:
        self._at = Path(f"/proc/{hub.pid}")

    def threads(self) -> int:
        return len(list((self._at / "task").iterdir()))

    def files(self) -> int:
        return len(list((self._at / "fd").iterdir()))

    def memory(self) -> int:
        (line,) = [line for line in (self._at / "status").read_text().splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) * 1024


def leave_no_waits(hub: LiveHub, feed: Served, request: bytes) -> None:
    """Send *request* from hundreds of clients that wait and leave; check that they need no thread and leave nothing."""
    process = Process(hub)
    threads: list[int] = []

    def wait_and_leave(clients: int) -> None:
        with ExitStack() as stack:
            for _ in range(clients):
                stack.enter_context(socket.create_connection(("127.0.0.1", hub.port))).sendall(request)
            until(lambda: feed.waiters() == clients)
            threads.append(process.threads())
        until(lambda: feed.waiters() == 0)

    wait_and_leave(50)  # Whatever is made once exists now, but for some of the database's connections.
    files, memory = process.files(), process.memory()
    for _ in range(2):
        wait_and_leave(200)
    until(lambda: process.files() <= files + KEPT_FILES)
    assert max(threads) < 40  # Waiting takes no thread.
    assert process.memory() < memory + 40 * MIB
