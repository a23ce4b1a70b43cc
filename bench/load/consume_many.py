"""Consumes many subscriptions over bare sockets in one thread, and notes when each event has come to each of them."""

import re
import select
import threading
import time
from collections import defaultdict
from typing import Any, Final

from bench.load.consume import Stream, commit
from bench.load.http1 import Connection
from bench.load.program import Run, serve

COMMIT_SECONDS: Final = 1.0
"""Every stream commits what it was sent about so often."""
PATIENCE_SECONDS: Final = 30.0
NUMBER_BYTES: Final = 64
"""More than a number takes that is cut in two."""
_NUMBER: Final = re.compile(rb'"order_id":"(\d+)"')
_QUERY: Final = "batch_limit=1&max_uncommitted_events=10000&batch_flush_timeout={flush}&commit_timeout=60"


def make(*, port: int, subscriptions: list[str], flush: int) -> Run:
    """Open a stream of each subscription."""
    query = _QUERY.format(flush=flush)
    streams = {stream.fileno(): stream for stream in (Stream(port, each, query) for each in subscriptions)}
    poll = select.epoll()
    for number in streams:
        poll.register(number, select.EPOLLIN)
    latest: dict[Stream, bytes] = {}
    rest = dict.fromkeys(streams.values(), b"")
    threading.Thread(target=_commit_all, args=(port, latest), daemon=True).start()

    def run(last: int) -> dict[str, Any]:
        """Consume up to event number *last*; give when each event had come to each, in nanoseconds."""
        seen: dict[int, list[int]] = defaultdict(list)
        until = time.monotonic() + PATIENCE_SECONDS
        while len(seen[last]) < len(streams) and time.monotonic() < until:
            for number, _ in poll.poll(0.1):
                stream = streams[number]
                cursors = stream.cursors()
                now = time.monotonic_ns()
                text, stop = rest[stream] + stream.text, 0
                for each in _NUMBER.finditer(text):
                    seen[int(each[1])].append(now)
                    stop = each.end()
                rest[stream] = text[max(stop, len(text) - NUMBER_BYTES) :]
                if cursors:
                    latest[stream] = cursors[-1]
        return {"at": seen}

    return run


def _commit_all(port: int, latest: dict[Stream, bytes]) -> None:
    connection = Connection(port)
    while True:
        began = time.monotonic()
        while latest:
            stream, cursor = latest.popitem()
            commit(connection, stream, [cursor])
            time.sleep(COMMIT_SECONDS / 200)
        time.sleep(max(0.01, COMMIT_SECONDS - (time.monotonic() - began)))


if __name__ == "__main__":
    serve(make)
