"""Publishes batches at a steady rate over one connection; a batch that is late counts from when it was due."""

import http.client
import time
from typing import Any

from bench.events import line
from bench.load.program import Run, serve


def make(port: int, feed: str, batch: int) -> Run:
    """Publish *batch* events at a time."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    body = "".join(map(line, range(batch))).encode()

    def run(seconds: float, per_second: float) -> dict[str, Any]:
        began, taken = time.perf_counter(), []
        for number in range(int(seconds * per_second)):
            due = began + number / per_second
            time.sleep(max(0.0, due - time.perf_counter()))
            connection.request("POST", f"/feeds/{feed}", body)
            answer = connection.getresponse()
            if answer.status != 200:
                raise RuntimeError(answer.read().decode())
            answer.read()
            taken.append(time.perf_counter() - due)
        return {"took_ms": [each * 1_000 for each in taken]}

    return run


if __name__ == "__main__":
    serve(make)
