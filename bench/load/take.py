"""Reads a feed from one end to the other, again and again, and takes its events up: as columns or as objects."""

import http.client
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pyarrow as pa

from bench.load.program import Run, serve
from bench.load.read import ARROW


class Line(msgspec.Struct, gc=False):
    """A line of FeedAPI v2: an event, or a cursor."""

    data: dict[str, Any] | None = None
    cursor: str | None = None


_decode_lines: Final = msgspec.json.Decoder(Line).decode_lines


def _columns(answer: http.client.HTTPResponse) -> tuple[int, str]:
    table = pa.ipc.open_stream(answer.read()).read_all()
    cursor = answer.headers["penstock-cursor"]
    return table.num_rows, cursor


def _objects(answer: http.client.HTTPResponse) -> tuple[int, str]:
    *events, last = _decode_lines(answer.read())
    assert last.cursor is not None
    return len(events), last.cursor


FORMS: Final[dict[str, tuple[str, Callable[[http.client.HTTPResponse], tuple[int, str]]]]] = {
    "arrow": (ARROW, _columns),
    "lines": ("*/*", _objects),
}


def make(*, port: int, feed: str, form: str, page: int, events: int) -> Run:
    """Read *events* events by pages of *page*, then begin again."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    accept, take = FORMS[form]

    def run(seconds: float) -> dict[str, Any]:
        count, cursor, started = 0, "", time.perf_counter()
        while time.perf_counter() - started < seconds:
            if count % events == 0:
                cursor = "_first"
            path = f"/feeds/{feed}/events?token=1-1&partition=0&pagesizehint={page}&cursor={cursor}"
            connection.request("GET", path, headers={"Accept": accept})
            rows, cursor = take(connection.getresponse())
            assert rows == page
            count += rows
        return {"rate": count / (time.perf_counter() - started)}

    return run


if __name__ == "__main__":
    serve(make)
