"""Consumes a subscription and commits whatever comes, at once."""

import threading
from typing import Any

from bench.load.consume import Stream, commit
from bench.load.http1 import Connection
from bench.load.program import Run, serve

QUERY = "batch_limit=100&max_uncommitted_events=10000&batch_flush_timeout=1&commit_timeout=10"


def make(port: int, subscription: str) -> Run:
    """Be ready."""

    def run() -> dict[str, Any]:
        """Begin, and go on until killed; give the id of the stream."""
        stream = Stream(port, subscription, QUERY)
        connection = Connection(port)

        def consume() -> None:
            while True:
                if cursors := stream.cursors():
                    commit(connection, stream, cursors)

        threading.Thread(target=consume, daemon=True).start()
        return {"stream": stream.id}

    return run


if __name__ == "__main__":
    serve(make)
