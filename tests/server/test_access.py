"""The access log has one line for each request."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from penstock.server.telemetry import DETAIL_CHARS_MAX
from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import Served, client_of, create, until


class Logged:
    """A hub, a feed of two partitions with three events, and the access log."""

    def __init__(self, hub: LiveHub, feed: Served, log: Path) -> None:
        self.hub = hub
        self.feed = feed
        self._log = log
        self._seen = len(self._lines())

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines since the last call, up to that of a request that is made for it."""
        until(lambda: len(self._lines()) > self._seen)
        assert self.feed.http.get("/version").status_code == 200
        until(lambda: self._lines()[-1]["path"] == "/version")
        *new, _ = self._lines()[self._seen :]
        self._seen += len(new) + 1
        return new

    def check(self, **expected: Any) -> dict[str, Any]:
        """Return the one line since the last call, which must have the *expected* members."""
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


BOTH = {"n": 2, "cursor0": "_first", "cursor1": "_first"}
TOKEN = {"token": "1-2", "cursor": "_first"}
REFUSED = {"events": 0, "consumer": "-"}


@pytest.mark.parametrize(
    ("method", "path", "query", "status", "expected"),
    [
        ("GET", "", BOTH | {"cursorset": "billing"}, 200,
         {"consumer": "billing", "n": 2, "partitions": "0,1", "events": 3}),
        ("GET", "/events", TOKEN | {"partition": 1}, 200,
         {"consumer": "-", "n": 2, "partitions": "1", "events": 3}),
        ("HEAD", "", {"n": 1, "cursor0": "_first"}, 200, {"n": 1, "partitions": "0", "events": 0}),
        ("GET", "", {"n": 3, "cursor0": "_first", "cursor2": "_first", "cursorset": "billing"}, 400,
         REFUSED | {"consumer": "billing", "n": 3, "partitions": "0,2", "code": "bad-partition-count"}),
        ("GET", "", {"cursor0": "_first"}, 400, REFUSED | {"n": 0, "partitions": "", "code": "bad-parameter"}),
        ("GET", "/events", TOKEN | {"token": "9-9", "partition": 1}, 409,
         REFUSED | {"n": 2, "partitions": "1", "code": "stale-token"}),
        ("GET", "/events", {"partition": 1}, 400, REFUSED | {"n": 0, "partitions": "", "code": "bad-parameter"}),
    ],
    ids=["page", "page of a partition", "head", "partition count", "no n", "stale token", "no token"],
)  # fmt: skip
def test_line_of_a_read_has_its_consumer_partitions_and_events(  # noqa: PLR0917
    logged: Logged, method: str, path: str, query: dict[str, Any], status: int, expected: dict[str, Any]
) -> None:
    feed = logged.feed
    answer = feed.http.request(method, feed.path + path, params=query, headers={"accept-encoding": ""})
    common = {"event": "read", "method": method, "path": feed.path + path, "status": status, "feed": feed.name}
    line = logged.check(**common, bytes=len(answer.content), **expected)
    assert status == 200 or line["detail"] == answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (b'{"data":{"id":1},"partition":0}\n', 200, {"partitions": "0", "events": 1}),
        (b"{]\n", 422, {"partitions": "", "events": 0, "code": "invalid-event"}),
    ],
    ids=["published", "refused"],
)
def test_line_of_a_publish_has_its_bytes_and_events(
    logged: Logged, body: bytes, status: int, expected: dict[str, Any]
) -> None:
    feed = logged.feed
    assert feed.post(body).status_code == status
    common = {"event": "publish", "method": "POST", "path": feed.path, "feed": feed.name, "consumer": "-", "n": 0}
    line = logged.check(**common, status=status, bytes=len(body), **expected)
    assert status == 200 or "line 1" in line["detail"]


@pytest.mark.parametrize("way", ["lines", "batch"])
def test_long_detail_of_a_refusal_is_truncated(logged: Logged, way: str) -> None:
    schema = {"properties": {"a": {"additionalProperties": False}}}
    feed = create(logged.feed.http, schema={"type": "json_schema", "schema": json.dumps(schema)})
    event = {"a": {f"{number}{'x' * 1_000}": 1 for number in range(20)}}
    logged.lines()

    if way == "lines":
        whole = feed.post(json.dumps({"data": event}).encode()).json()["detail"]
    else:
        whole = feed.http.post(f"/event-types/{feed.name}/events", json=[event]).json()[0]["detail"]

    line = logged.check(status=422, code="invalid-event")
    assert len(line["detail"]) == DETAIL_CHARS_MAX < len(whole)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/event-types", 200),
        ("GET", "/event-types/nobody", 404),
        ("GET", "/nowhere", 404),
        ("PUT", "/event-types", 405),
        ("GET", "/openapi.json", 200),
        ("GET", "/feeds/{}", 200),
    ],
)
def test_line_of_another_request_has_its_status(logged: Logged, method: str, path: str, status: int) -> None:
    path = path.format(logged.feed.name)
    answer = logged.feed.http.request(method, path, headers={"accept-encoding": ""})
    assert answer.status_code == status
    line = logged.check(event="request", method=method, path=path, status=status, bytes=len(answer.content))
    assert line["consumer"] == "-"
    assert not path.startswith("/feeds") or (line["feed"], line["partitions"]) == (logged.feed.name, "")


def test_line_of_a_client_that_leaves_while_it_waits_has_no_status(logged: Logged) -> None:
    with closing(HTTPConnection("127.0.0.1", logged.hub.port, timeout=300)) as leaving:
        leaving.request("GET", f"{logged.feed.path}?n=1&cursor0=_last&wait=60")
        until(lambda: logged.feed.waiters() == 1)
    logged.check(event="read", status="-", feed=logged.feed.name, n=1, partitions="0", events=0, bytes=0)


def test_health_checks_and_metrics_are_not_logged(logged: Logged) -> None:
    for path in ("/health", "/health/live", "/health/ready", "/metrics", "/event-types"):
        assert logged.feed.http.get(path).status_code == 200
    logged.check(path="/event-types")
