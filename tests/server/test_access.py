"""Every request is one line of the access log, whatever becomes of it."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from penstock.server.access import DETAIL_CHARS_MAX
from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import Served, client_of, create, until


class Logged:
    """A hub, a feed of two partitions in it with three events, and what the hub logs."""

    def __init__(self, hub: LiveHub, feed: Served, log: Path) -> None:
        self.hub = hub
        self.feed = feed
        self._log = log
        self._seen = len(self._lines())

    def lines(self) -> list[dict[str, Any]]:
        """Return the access lines since the last look, once there are some, and a moment in which more would come."""
        until(lambda: len(self._lines()) > self._seen)
        assert self.feed.http.get("/version").status_code == 200
        until(lambda: self._lines()[-1]["path"] == "/version")
        *new, _ = self._lines()[self._seen :]
        self._seen += len(new) + 1
        return new

    def line(self, **expected: Any) -> dict[str, Any]:
        """Return the one line since the last look, which must hold what is expected."""
        (line,) = self.lines()
        assert {name: line[name] for name in expected} == expected
        assert line["ms"] >= 0
        return line

    def _lines(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.endswith("}")]
        return [line for line in lines if line["logger"] == "penstock.access"]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveHub, Served, Path]]:
    folder = tmp_path_factory.mktemp("access")
    with live_hub(f"sqlite:///{folder}/hub.db", log=folder / "log") as hub, client_of(hub) as http:
        feed = create(http, partitions=2)
        feed.publish_ids(range(3), partition=1)
        until(lambda: '"publish"' in (folder / "log").read_text())
        yield hub, feed, folder / "log"


@pytest.fixture
def logged(started: tuple[LiveHub, Served, Path]) -> Logged:
    return Logged(*started)


def test_a_page_tells_who_read_what(logged: Logged) -> None:
    answer = logged.feed.get(
        n=2, cursor0="_first", cursor1="_first", cursorset="billing", sending={"accept-encoding": ""}
    )
    told = {"event": "read", "method": "GET", "status": 200, "feed": logged.feed.name, "path": logged.feed.path}
    told |= {"consumer": "billing", "n": 2, "partitions": "0,1", "events": 3, "bytes": len(answer.content)}
    logged.line(**told)


def test_a_page_of_one_partition_tells_the_same(logged: Logged) -> None:
    answer = logged.feed.events(partition=1, sending={"accept-encoding": ""})
    told = {"event": "read", "method": "GET", "status": 200, "feed": logged.feed.name}
    told |= {"consumer": "-", "n": 2, "partitions": "1", "events": 3, "bytes": len(answer.content)}
    logged.line(path=f"{logged.feed.path}/events", **told)


def test_the_head_of_a_page_is_a_line_of_no_bytes(logged: Logged) -> None:
    assert logged.feed.http.head(logged.feed.path, params={"n": 1, "cursor0": "_first"}).status_code == 200
    logged.line(event="read", method="HEAD", status=200, feed=logged.feed.name, n=1, partitions="0", events=0, bytes=0)


def test_publishing_tells_the_bytes_that_came(logged: Logged) -> None:
    body = b'{"data":{"id":1},"partition":0}\n'
    assert logged.feed.post(body).status_code == 200
    told = {"event": "publish", "feed": logged.feed.name, "partitions": "0", "events": 1, "bytes": len(body)}
    logged.line(method="POST", path=logged.feed.path, status=200, consumer="-", n=0, **told)


def test_a_refusal_tells_why(logged: Logged) -> None:
    logged.feed.post(b"{]\n")
    told = {"consumer": "-", "n": 0, "partitions": "", "events": 0, "bytes": 3, "code": "invalid-event"}
    line = logged.line(event="publish", method="POST", status=422, feed=logged.feed.name, **told)
    assert "line 1" in line["detail"]


@pytest.mark.parametrize("way", ["by lines", "by batches"])
def test_of_a_long_refusal_the_beginning_is_told(logged: Logged, way: str) -> None:
    schema = {"properties": {"a": {"additionalProperties": False}}}
    feed = create(logged.feed.http, schema={"type": "json_schema", "schema": json.dumps(schema)})
    event = {"a": {f"{number}{'x' * 1_000}": 1 for number in range(20)}}
    logged.lines()

    if way == "by lines":
        answer = feed.post(json.dumps({"data": event}).encode())
        whole = answer.json()["detail"]
    else:
        answer = feed.http.post(f"/event-types/{feed.name}/events", json=[event])
        whole = answer.json()[0]["detail"]

    line = logged.line(status=422, code="invalid-event")
    assert len(line["detail"]) == DETAIL_CHARS_MAX < len(whole)


@pytest.mark.parametrize(
    ("path", "query", "told"),
    [
        ("", {"n": 3, "cursor0": "_first", "cursor2": "_first", "cursorset": "billing"},
         {"consumer": "billing", "n": 3, "partitions": "0,2", "code": "bad-partition-count"}),
        ("", {"cursor0": "_first"}, {"consumer": "-", "n": 0, "partitions": "", "code": "bad-parameter"}),
        ("/events", {"token": "9-9", "partition": 1, "cursor": "_first"},
         {"consumer": "-", "n": 2, "partitions": "1", "code": "stale-token"}),
        ("/events", {"partition": 1}, {"consumer": "-", "n": 0, "partitions": "", "code": "bad-parameter"}),
    ],
)  # fmt: skip
def test_a_read_that_is_refused_tells_what_it_was(
    logged: Logged, path: str, query: dict[str, Any], told: dict[str, Any]
) -> None:
    answer = logged.feed.get(path, sending={"accept-encoding": ""}, **query)
    told |= {"events": 0, "bytes": len(answer.content), "detail": answer.json()["detail"]}
    logged.line(event="read", status=answer.status_code, feed=logged.feed.name, **told)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/event-types", 200),
        ("GET", "/event-types/nobody", 404),
        ("GET", "/nowhere", 404),
        ("PUT", "/event-types", 405),
        ("GET", "/openapi.json", 200),
    ],
)
def test_whatever_else_is_asked_is_a_line_too(logged: Logged, method: str, path: str, status: int) -> None:
    answer = logged.feed.http.request(method, path, headers={"accept-encoding": ""})
    assert answer.status_code == status
    logged.line(event="request", method=method, path=path, status=status, consumer="-", bytes=len(answer.content))


def test_discovery_names_the_feed(logged: Logged) -> None:
    logged.feed.get()
    logged.line(event="request", method="GET", status=200, feed=logged.feed.name, partitions="", events=0)


def test_a_client_that_leaves_while_it_waits_has_no_status(logged: Logged) -> None:
    with closing(HTTPConnection("127.0.0.1", logged.hub.port, timeout=20)) as leaving:
        leaving.request("GET", f"{logged.feed.path}?n=1&cursor0=_last&wait=60")
        until(lambda: logged.feed.waiters() == 1)
    logged.line(event="read", status="-", feed=logged.feed.name, n=1, partitions="0", events=0, bytes=0)


def test_what_machines_ask_all_the_time_is_not_told(logged: Logged) -> None:
    for path in ("/health", "/health/live", "/health/ready", "/metrics"):
        assert logged.feed.http.get(path).status_code == 200
    logged.feed.http.get("/event-types")
    logged.line(path="/event-types")
