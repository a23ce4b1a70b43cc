"""Feeds in a hub that runs in a process of its own, as those who speak HTTP see them."""

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx2
import pytest

from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import LiveHub, live_hub

ARROW = "application/vnd.apache.arrow.stream"
CLOUD_EVENTS = "application/cloudevents-batch+json"
NDJSON = "application/x-ndjson"
PROBLEM = "application/problem+json"


class Page(NamedTuple):
    """What a read has given."""

    lines: list[dict[str, Any]]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [line["data"] for line in self.lines if "data" in line]

    @property
    def ids(self) -> list[int]:
        return [event["id"] for event in self.events]

    @property
    def cursors(self) -> dict[int, str]:
        """The last cursor of each partition; under 0 what a v2 page gives."""
        return {line.get("partition", 0): line["cursor"] for line in self.lines if "cursor" in line}

    @property
    def cursor(self) -> str:
        """The one cursor that the page ends with."""
        (cursor,) = self.cursors.values()
        return cursor

    def of(self, partition: int) -> list[int]:
        """The ids of one partition's events."""
        return [line["data"]["id"] for line in self.lines if "data" in line and line["partition"] == partition]


class Served:
    """One feed, reached over HTTP."""

    def __init__(self, http: httpx2.Client, name: str, partitions: int) -> None:
        self.http = http
        self.name = name
        self.path = f"/feeds/{name}"
        self.partitions = partitions

    def publish(self, *events: dict[str, Any], **members: Any) -> dict[str, Any]:
        """Publish events as lines, each with *members* beside its data."""
        return self.publish_lines({"data": event, **members} for event in events)

    def publish_ids(self, ids: Iterable[int], **members: Any) -> dict[str, Any]:
        return self.publish(*({"id": number} for number in ids), **members)

    def publish_lines(self, lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
        answer = self.post(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        assert answer.status_code == 200, answer.text
        published: dict[str, Any] = answer.json()
        return published

    def post(self, body: bytes, headers: dict[str, str] | None = None, **arguments: Any) -> httpx2.Response:
        return self.http.post(self.path, content=body, headers=headers, params=arguments)

    def get(self, /, path: str = "", *, sending: dict[str, str] | None = None, **arguments: Any) -> httpx2.Response:
        """GET with *arguments* as the query, and *sending* as the request's headers."""
        named = {name.replace("_types", "-types").replace("skip_", "skip-"): value for name, value in arguments.items()}
        return self.http.get(self.path + path, params=named, headers=sending)

    def read(self, n: int | None = None, cursors: dict[int, str] | str = "_first", **arguments: Any) -> Page:
        """Read a v1 page; *cursors* as text is the cursor of every partition."""
        n = n or self.partitions
        given = dict.fromkeys(range(n), cursors) if isinstance(cursors, str) else cursors
        return page_of(self.get(n=n, **{f"cursor{p}": cursor for p, cursor in given.items()}, **arguments))

    def read_v2(self, cursor: str = "_first", partition: int = 0, **arguments: Any) -> Page:
        return page_of(self.events(cursor=cursor, partition=partition, **arguments))

    def events(self, **arguments: Any) -> httpx2.Response:
        """GET /events, with the token unless it is given."""
        given = {"token": f"1-{self.partitions}", "partition": 0, "cursor": "_first"} | arguments
        return self.get("/events", **given)

    def drop(self) -> None:
        assert self.http.delete(f"/event-types/{self.name}").status_code == 200

    def waiters(self) -> int:
        return waiters(self.http)


def page_of(answer: httpx2.Response) -> Page:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == NDJSON
    assert answer.text.endswith("\n")
    return Page([json.loads(line) for line in answer.text.splitlines()])


def problem_of(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """Return the problem that *answer* must hold."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    problem: dict[str, Any] = answer.json()
    assert problem["type"] == f"urn:penstock:problem:{code}", problem
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    return problem


def waiters(http: httpx2.Client) -> int:
    """How many readers the hub has waiting."""
    (line,) = [line for line in http.get("/metrics").text.splitlines() if line.startswith("penstock_waiters ")]
    return int(float(line.split()[1]))


def until(condition: Any) -> None:
    """Ask, again and again, until *condition* holds; what never comes ends by the test's time limit."""
    pause = 0.002  # The processor is for whoever is waited for.
    while not condition():
        time.sleep(pause)
        pause = min(pause * 1.25, 0.05)


def create(http: httpx2.Client, partitions: int = 1, name: str | None = None, **definition: Any) -> Served:
    """Create an event type of that name, else of one that nobody else has; user_defined where it has partitions."""
    name = name or f"test.{uuid.uuid4().hex}"
    strategy = "user_defined" if partitions > 1 else "random"
    traits = {"partition_count": partitions, "partition_strategy": strategy} | definition
    answer = http.post("/event-types", json=an_event_type(name, **traits))
    assert answer.status_code == 201, answer.text
    return Served(http, name, partitions)


def as_new(http: httpx2.Client) -> None:
    """Switch all features off, and lift all blocks: those who share a hub find it so."""
    for each in http.get("/settings/features").json()["items"]:
        if each["enabled"]:
            assert http.post("/settings/features", json=each | {"enabled": False}).status_code == 204
    shown = http.get("/settings/blacklist").json()
    for side, kind in (("producers", "PRODUCER"), ("consumers", "CONSUMER")):
        for things, suffix in (("event_types", "ET"), ("apps", "APP")):
            for name in shown[side][things]:
                assert http.delete(f"/settings/blacklist/{kind}_{suffix}/{quote(name)}").status_code == 204


@contextmanager
def blocked_readers(feed: Served) -> Iterator[None]:
    """Block the readers of the feed within the block."""
    path = f"/settings/blacklist/CONSUMER_ET/{feed.name}"
    assert feed.http.put(path).status_code == 204
    try:
        yield
    finally:
        assert feed.http.delete(path).status_code == 204


@contextmanager
def client_of(hub: LiveHub) -> Iterator[httpx2.Client]:
    # To load certificate authorities takes 25 ms. The hub closes connections that were idle for five seconds.
    limits = httpx2.Limits(keepalive_expiry=3.0)
    with httpx2.Client(base_url=hub.url, timeout=300, verify=False, limits=limits) as http:
        yield http


@pytest.fixture(scope="package")
def sqlite_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub on SQLite for all tests of HTTP; each makes event types of its own."""
    folder = tmp_path_factory.mktemp("served")
    with live_hub(f"sqlite:///{folder}/hub.db", log=folder / "hub.log") as hub:
        yield hub


@pytest.fixture(scope="package")
def postgres_hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """The same on PostgreSQL."""
    url = request.getfixturevalue("postgres_cluster").create_database()
    with live_hub(url, log=tmp_path_factory.mktemp("served") / "hub.log") as hub:
        yield hub


@pytest.fixture
def http(sqlite_hub: LiveHub) -> Iterator[httpx2.Client]:
    """A client of a hub, for what no database has a part in."""
    with client_of(sqlite_hub) as client:
        yield client


@pytest.fixture(params=["sqlite", "postgres"])
def either_http(request: pytest.FixtureRequest) -> Iterator[httpx2.Client]:
    """A client of a hub on SQLite and on PostgreSQL in turn."""
    with client_of(request.getfixturevalue(f"{request.param}_hub")) as client:
        yield client


@pytest.fixture
def feed(http: httpx2.Client) -> Served:
    """A feed with one partition, and no events."""
    return create(http)


@pytest.fixture
def feed4(either_http: httpx2.Client) -> Served:
    """A feed with four partitions, chosen by whoever publishes, on both databases."""
    return create(either_http, 4)
