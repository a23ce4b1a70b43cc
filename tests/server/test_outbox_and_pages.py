"""Events of the outbox are in the next page and count to the lag of groups."""

import json
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from penstock.errors import HubUnavailable
from penstock.hub.hub import Hub
from penstock.hub.log.log import Log
from penstock.server import HubApp
from penstock.storage import open_store
from penstock.storage.sqlite.log.events import SqliteLog
from penstock.storage.sqlite.log.outbox import SqliteOutbox
from penstock.testing.factories import an_event_type
from tests.unit.hub.feeds import NAME, into_outbox
from tests.unit.hub.forwarding import ForwardingStore

AT_FIRST = {"kind": "spark", "items": [{"event_type": NAME, "partition": 0, "offset": 0}]}


@pytest.fixture
def forwarding(sqlite_url: str) -> Iterator[ForwardingStore]:
    with closing(open_store(sqlite_url)) as store:
        store.migrate()
        Hub(store).registry.create(an_event_type(NAME))
        yield ForwardingStore(open_store(sqlite_url))


@pytest.fixture
def http(forwarding: ForwardingStore) -> Iterator[TestClient]:
    """A client of a hub that is not started: it moves the outbox on request only."""
    hub = Hub(forwarding)
    with closing(TestClient(HubApp(lambda: hub))) as http:
        yield http
    hub.stop()


def lines(answer: httpx2.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_event_that_another_hub_moves_while_a_page_opens_is_in_the_page(
    forwarding: ForwardingStore, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_store(forwarding.url)) as theirs:
        other = Hub(theirs)

        def move_after(kind: type, method: str) -> None:
            """Move the outbox once that method was called, or another one for which this was asked."""
            look = getattr(kind, method)

            def look_and_move(*given: Any, **how: Any) -> Any:
                found = look(*given, **how)
                monkeypatch.undo()
                assert other.log.settle(NAME)
                return found

            monkeypatch.setattr(kind, method, look_and_move)

        http.get(f"/feeds/{NAME}")  # Now the hub runs, and knows its settings.
        into_outbox(forwarding, [(NAME, '{"n":1}')])
        move_after(SqliteOutbox, "find_waiting")
        move_after(SqliteLog, "find_heads")
        found = lines(http.get(f"/feeds/{NAME}", params={"n": 1, "cursor0": "_first"}))
        assert [line["data"] for line in found if "data" in line] == [{"n": 1}]


def test_stored_last_cursor_lies_behind_earlier_rows_of_the_outbox(
    forwarding: ForwardingStore, http: TestClient
) -> None:
    into_outbox(forwarding, [(NAME, '{"n":1}')])
    given = {"n": "1", "cursor0": "_last", "cursorset": "billing", "store_cursor": "1"}
    (last,) = lines(http.get(f"/feeds/{NAME}", params=given | {"pagesizehint": "0"}))
    into_outbox(forwarding, [(NAME, '{"n":2}')])

    found = lines(http.get(f"/feeds/{NAME}", params={"n": 1, "resume": 0, "cursorset": "billing"}))

    assert [line["data"] for line in found if "data" in line] == [{"n": 2}]
    assert last["cursor"].endswith("-1")


def test_rows_of_the_outbox_count_to_the_gap_of_a_group(forwarding: ForwardingStore, http: TestClient) -> None:
    assert http.post("/groups/a/positions", json=AT_FIRST).status_code == 200
    into_outbox(forwarding, [(NAME, '{"n":1}')])
    [listed] = http.get("/groups").json()["items"]
    into_outbox(forwarding, [(NAME, '{"n":2}')])
    shown = http.get("/groups/a").json()
    into_outbox(forwarding, [(NAME, '{"n":3}')])
    moved = http.patch("/groups/a/positions", json={"to": "latest"}).json()

    assert (listed["gap"], shown["gap"], [each["offset"] for each in moved["items"]]) == (1, 2, [3])


def test_groups_are_listed_despite_a_backlog_of_the_outbox(
    forwarding: ForwardingStore, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object, __: str) -> Any:
        refused: Future[None] = Future()
        refused.set_exception(HubUnavailable.of("outbox-backlog", event_type=NAME, seconds=6, retry_after=1))
        return refused

    assert http.post("/groups/a/positions", json=AT_FIRST).status_code == 200
    into_outbox(forwarding, [(NAME, '{"n":1}')])
    monkeypatch.setattr(Log, "move", refuse)
    listed, shown = http.get("/groups"), http.get("/groups/a")

    assert [each["gap"] for each in listed.json()["items"]] == [0]
    assert shown.status_code == 503
