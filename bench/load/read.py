"""Reads a feed from one end to the other, again and again, over one connection, and throws it away."""

import time
from statistics import median
from typing import Any

from bench.load.http1 import Answer, Connection, cursor_in, get, header
from bench.load.program import Run, serve

ARROW = "application/vnd.apache.arrow.stream"


class Pages:
    """The pages of a feed in their order, in one of the forms in which they can be had."""

    def __init__(self, form: str, feed: str, page: int, first: str, token: str = "") -> None:
        self._token = token
        self._accept = ARROW if form == "arrow" else "*/*"
        self._form = form
        self._first = self._cursor = first
        self._path = {
            "v1": f"/feeds/{feed}?n=1&pagesizehint={page}&cursor0=",
            "lines": f"/feeds/{feed}/events?token=1-1&partition=0&pagesizehint={page}&cursor=",
            "arrow": f"/feeds/{feed}/events?token=1-1&partition=0&pagesizehint={page}&cursor=",
            "plain": f"/?count={page}&start=",
            "file": "/",
        }[form]
        self._page = page

    def restart(self) -> None:
        self._cursor = self._first

    def request(self) -> bytes:
        return get(self._path + self._cursor, self._accept, self._token)

    def advance(self, answer: Answer) -> None:
        if self._form in ("plain", "file"):
            self._cursor = str(int(self._cursor) + self._page)
        elif self._form == "arrow":
            cursor = header(answer.head, b"penstock-cursor")
            assert cursor is not None
            self._cursor = cursor.decode()
        else:
            self._cursor = cursor_in(answer)


def make(*, port: int, feed: str, form: str, page: int, events: int, first: str, token: str = "") -> Run:
    """Read *events* events from *first* on by pages of *page*, then begin again; with *token* if there is one."""
    connection = Connection(port)
    pages = Pages(form, feed, page, first, token)

    def run(seconds: float) -> dict[str, Any]:
        times, count, started = [], 0, time.perf_counter()
        while (now := time.perf_counter()) - started < seconds:
            if count % events == 0:
                pages.restart()
            answer = connection.exchange(pages.request())
            pages.advance(answer)
            count += page
            times.append(time.perf_counter() - now)
        return {"rate": count / (time.perf_counter() - started), "page_ms": 1000 * median(times), "bytes": answer.bytes}

    return run


if __name__ == "__main__":
    serve(make)
