"""Readers that wait at one cursor share one read of the log, and each gets what it asked for."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.server.state import WORKERS
from penstock.storage.postgres.log.events import PostgresLog
from penstock.storage.sqlite.log.events import SqliteLog
from tests.promises.scene import NAME, create, event, hub_on, until

WAITERS = 60
VIEWS = {
    "?n=2&cursor0=_first": [(0, 0), (0, 2), (0, 4)],
    "?n=2&cursor1=_first": [(1, 1), (1, 3), (1, 5)],
    "?n=1&cursor0=_first": [(0, 0), (0, 2), (0, 4), (0, 1), (0, 3), (0, 5)],
    "/events?token=1-2&partition=0&cursor=_first": [(None, 0), (None, 2), (None, 4)],
    "/events?token=1-2&partition=1&cursor=_first": [(None, 1), (None, 3), (None, 5)],
    "?n=2&cursor0=_first&event-types=kind.0": [(0, 0)],
    "?n=2&cursor0=_first&skip-event-types=kind.0": [(0, 2), (0, 4)],
    "?n=2&cursor0=_first&event-types=kind.1": [(0, 4)],
    "?n=2&cursor0=_first&pagesizehint=2": [(0, 0), (0, 2)],
    "/events?token=1-2&partition=0&cursor=_first&skip-event-types=kind.2": [(None, 0), (None, 4)],
}
"""Reads of the same events in v1 and v2, in several views and by kind: partition and number of each event."""


class App:
    """A hub over HTTP in this process."""

    def __init__(self, app: HubApp, http: TestClient) -> None:
        self.hub = app.hub
        self._http = http

    def get(self, path: str) -> str:
        answer = self._http.get(f"/feeds/{NAME}{path}")
        assert answer.status_code == 200, answer.text
        return answer.text

    def publish(self, *lines: dict[str, Any]) -> None:
        body = "\n".join(json.dumps({"partition": 0} | line) for line in lines)
        assert self._http.post(f"/feeds/{NAME}", content=body).status_code == 200


@pytest.fixture
def elsewhere(url: str) -> Iterator[Hub]:
    """A hub with an event type of two partitions."""
    with hub_on(url, partitions=2) as elsewhere:
        yield elsewhere


@pytest.fixture
def app(elsewhere: Hub, url: str) -> Iterator[App]:
    """Another hub on the same database."""
    app = HubApp(url)
    with TestClient(app, base_url="http://hub") as http:
        yield App(app, http)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that gets an item for each read of events as lines."""
    reads: list[Any] = []
    for kind in (SqliteLog, PostgresLog):

        def lines(*given: Any, read: Any = kind.read_lines) -> Any:
            reads.append(given)
            return read(*given)

        monkeypatch.setattr(kind, "read_lines", lines)
    return reads


def count_events(page: str) -> list[tuple[int | None, int]]:
    """Return the partition and the number of each event of a page."""
    lines = [json.loads(line) for line in page.splitlines()]
    return [(line.get("partition"), line["data"]["n"]) for line in lines if "data" in line]


def test_readers_that_wait_at_one_cursor_are_served_by_few_reads(app: App, reads: list[Any]) -> None:
    app.publish({"data": {"n": 0}})
    cursor = json.loads(app.get("?n=2&cursor0=_last"))["cursor"]
    with ThreadPoolExecutor(WAITERS) as threads:
        waits = [threads.submit(app.get, f"?n=2&cursor0={cursor}&wait=60") for _ in range(WAITERS)]
        until(lambda: app.hub.log.watch.waiting == WAITERS, "all readers wait")
        before = len(reads)

        app.publish({"data": {"n": 1}})
        pages = {each.result() for each in waits}

    assert len(reads) - before <= WORKERS  # Reads that begin at the very same moment are not shared.
    assert [count_events(page) for page in pages] == [[(0, 1)]]


def test_shared_read_gives_each_reader_its_own_view(app: App, reads: list[Any]) -> None:
    app.publish(*({"data": {"n": n}, "partition": n % 2, "headers": {"ce_type": f"kind.{n % 3}"}} for n in range(6)))
    first = {path: app.get(path) for path in VIEWS}
    before = len(reads)
    again = {path: app.get(path) for path in reversed(VIEWS)}

    assert {path: count_events(page) for path, page in first.items()} == VIEWS
    assert again == first
    assert len(reads) == before > 0, "the second reads were shared"


def test_recreated_event_type_shares_no_read_with_the_one_before(app: App, elsewhere: Hub) -> None:
    """It is dropped and created again here or by another hub: its first events are at the same offsets."""
    for life, hub in enumerate((app.hub, elsewhere, app.hub, elsewhere), 1):
        elsewhere.log.publish(NAME, [event({"n": life * 10 + n}) for n in range(2)])
        for path in ("?n=2&cursor0=_first", f"/events?token={life}-2&partition=0&cursor=_first") * 2:
            assert [n for _, n in count_events(app.get(path))] == [life * 10, life * 10 + 1]
        hub.registry.delete(NAME)
        create(hub, partitions=2)
    assert count_events(app.get("?n=2&cursor0=_first")) == []
