"""Streams of Nakadi's low-level interface, as those who speak HTTP see them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.served import Served


class Batch(NamedTuple):
    """One line of a stream."""

    partition: int
    number: int
    """Of the last event consumed; -1 before the first."""
    ids: list[int] | None
    """None in a keep-alive."""


def batch_of(line: str | bytes) -> Batch:
    members = json.loads(line)
    offset = members["cursor"]["offset"].removeprefix("001-").partition("-")[2]
    events = members.get("events")
    return Batch(int(members["cursor"]["partition"]), int(offset), events and [event["id"] for event in events])


def path(feed: Served) -> str:
    return f"/event-types/{feed.name}/events"


def header(*cursors: tuple[Any, Any]) -> dict[str, str]:
    """Return the header that says where to begin: each a partition and an offset."""
    given = [{"partition": str(partition), "offset": str(offset)} for partition, offset in cursors]
    return {"X-nakadi-cursors": json.dumps(given)}


def whole(feed: Served, *cursors: tuple[Any, Any], **arguments: Any) -> list[Batch]:
    """Return a stream that ends by itself; without *cursors* it begins where the partitions end."""
    answer = feed.http.get(path(feed), params=arguments, headers=header(*cursors) if cursors else {})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-json-stream"
    return [batch_of(line) for line in answer.text.splitlines()]


@contextmanager
def lines(feed: Served, *cursors: tuple[Any, Any], **arguments: Any) -> Iterator[Iterator[str]]:
    """Begin a stream, whose headers have come, and return its lines as they come; it is left with the block."""
    headers = {"Accept-Encoding": "identity"} | (header(*cursors) if cursors else {})
    with feed.http.stream("GET", path(feed), params=arguments, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        yield answer.iter_lines()


@contextmanager
def streaming(feed: Served, *cursors: tuple[Any, Any], **arguments: Any) -> Iterator[Iterator[Batch]]:
    """The same by batches."""
    with lines(feed, *cursors, **arguments) as found:
        yield map(batch_of, found)


def raw_request(feed: Served, *cursors: tuple[Any, Any], **arguments: Any) -> bytes:
    """Return the bytes that ask for a stream."""
    request = feed.http.build_request("GET", path(feed), params=arguments)
    headers = {"Host": "localhost", "Accept-Encoding": "identity"} | (header(*cursors) if cursors else {})
    given = [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"GET {request.url.raw_path.decode()} HTTP/1.1", *given, "", ""]).encode()
