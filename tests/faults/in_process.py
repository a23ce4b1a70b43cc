"""A hub in this process without a network, and an HTTP client on whose way to it anything may happen."""

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

import httpx2
from starlette.testclient import TestClient

from penstock.core.events.event import NewEvent
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.storage import open_store

Fault: TypeAlias = Literal["passed", "unsent", "lost", "stuck", "late", "twice", "unanswered", "busy", "forbidden"]
"""The fate of a request; a late one comes behind all that were stuck before."""
FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)


class Box:
    """A hub over HTTP in this process; one that is killed leaves its database as it is."""

    def __init__(self, database: str, modulus: int) -> None:
        self.database = database
        self.modulus = modulus
        self.begin()

    def begin(self) -> None:
        def opened() -> Hub:
            store = open_store(self.database)
            store.migrate()
            self.hub = Hub(store, sequence_modulus=self.modulus)
            self.hub.start()
            return self.hub

        self.http = TestClient(HubApp(opened), base_url="http://hub")
        self.http.__enter__()

    def end(self) -> None:
        self.http.__exit__(None, None, None)


class Sent:
    """A request that may come to the hub, once or more often."""

    def __init__(self, box: Box, request: httpx2.Request) -> None:
        self._box = box
        self.method = request.method
        self.path = request.url.raw_path.decode()
        self.headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        self.body = request.read()

    @property
    def group(self) -> str | None:
        """The producer group of a batch; None for other requests."""
        return self.headers.get("producer-group")

    def arrive(self) -> httpx2.Response:
        answer = self._box.http.request(self.method, self.path, headers=self.headers, content=self.body)
        return httpx2.Response(answer.status_code, headers=dict(answer.headers), content=answer.content)


class Road(Protocol):
    """The way of requests to the hub, which may deliver them late."""

    def arrive(self, sent: Sent) -> httpx2.Response:
        """Let one come to the hub."""

    def stick(self, sent: Sent) -> None:
        """Keep one for later."""

    def deliver_all(self) -> None:
        """Let all come to the hub that were kept."""


class Way(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """The way from a client to the hub: the next requests have the next faults."""

    def __init__(self, box: Box, road: Road) -> None:
        self._box = box
        self._road = road
        self.faults: list[Fault] = []

    def client(self) -> httpx2.Client:
        return httpx2.Client(transport=self)

    def async_client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=self)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        return self.handle_request(request)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        sent = Sent(self._box, request)
        fault = self.faults.pop(0) if self.faults else "passed"
        match fault:
            case "unsent":
                raise httpx2.ConnectError("refused")
            case "lost":
                raise httpx2.ReadError("reset")
            case "stuck":
                self._road.stick(sent)
                raise httpx2.ReadTimeout("nothing came")
            case "busy":
                return httpx2.Response(503, headers={"retry-after": "0"})
            case "forbidden":
                return problem(403, "forbidden")
            case "late":
                self._road.deliver_all()
            case "twice":
                self._road.arrive(sent)
        answer = self._road.arrive(sent)
        if fault == "unanswered":
            raise httpx2.ReadError("reset")
        return answer


def problem(status: int, code: str) -> httpx2.Response:
    said = {"type": f"urn:penstock:problem:{code}", "title": code, "status": status, "detail": code}
    return httpx2.Response(status, content=json.dumps(said), headers={"content-type": "application/problem+json"})


def publish_plainly(box: Box, name: str, ids: Sequence[int]) -> None:
    """Publish without numbers."""
    box.hub.log.publish(name, [NewEvent.of(b'{"id":%d}' % each, partition=0) for each in ids])


def log(box: Box, name: str) -> list[int]:
    """Return the ids of the events of partition 0; assert that their offsets have no holes."""
    answer = box.http.get(f"/feeds/{name}", params={"n": 1, "cursor0": "_first", "pagesizehint": 100_000})
    assert answer.status_code == 200, answer.text
    lines: list[dict[str, Any]] = [json.loads(line) for line in answer.text.splitlines()]
    found = [line["data"]["id"] for line in lines if "data" in line]
    (head,) = box.hub.log.find_heads(name)[1].values()
    assert head.next_offset == len(found), "the offsets are dense"
    return found
