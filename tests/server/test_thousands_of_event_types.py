"""Thousands of event types cost a publish nothing, and are listed with one read."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.core.registry.event_type import EventType
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_business_event, a_new_event, an_event_type
from penstock.testing.live_hub import live_hub
from tests.unit.hub.forwarding import ForwardingStore

COUNT = 2_000
NAMES = [f"shop.{number:04}" for number in range(COUNT)]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a database with these event types, each with a schema of its own."""
    url = f"sqlite:///{tmp_path_factory.mktemp('thousands')}/hub.db"
    with_event_types(url, NAMES)
    return url


def with_event_types(url: str, names: list[str]) -> None:
    """Create a database that has these event types."""
    store = open_store(url)
    store.migrate()
    with store.write() as tx:
        for name in reversed(names):
            schema = {"type": "json_schema", "schema": f'{{"title": "{name}", "required": ["order_id"]}}'}
            given = an_event_type(name, category="business", partition_count=2, schema=schema)
            tx.registry.insert(EventType.parse(given), START_AT)
    store.close()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements of all connections that are opened from now on."""
    statements: list[str] = []
    connect = sqlite3.connect

    def listening(*arguments: Any, **how: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **how)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", listening)
    return statements


@pytest.fixture
def opened(said: list[str]) -> Iterator[list[Hub]]:
    """The hubs that are stopped at the end."""
    hubs: list[Hub] = []
    yield hubs
    for hub in hubs:
        hub.stop()
        hub.store.close()


def open_hub(url: str, opened: list[Hub]) -> tuple[Hub, ForwardingStore]:
    store = ForwardingStore(open_store(url))
    opened.append(Hub(store))
    return opened[-1], store


def test_publish_to_a_known_event_type_reads_nothing_of_the_registry(
    database: str, said: list[str], opened: list[Hub], tmp_path: Path
) -> None:
    one = f"sqlite:///{tmp_path}/one.db"
    with_event_types(one, NAMES[:1])
    alone, _ = open_hub(one, opened)
    among, store = open_hub(database, opened)
    known = NAMES[:: COUNT // 20]
    event = a_new_event(a_business_event())
    alone.log.publish(NAMES[0], [event])
    for name in known:
        among.log.publish(name, [event])
    assert store.reads == len(known), "each is looked at once"
    assert any("definition" in statement for statement in said), "such a look is heard here"

    said.clear()
    alone.log.publish(NAMES[0], [event])
    needed = without_looks(said)
    assert len(needed) > 3, "a transaction, heads, events"
    for name in known:
        said.clear()
        among.log.publish(name, [event])
        assert len(without_looks(said)) == len(needed)
        assert not any("definition" in statement for statement in said)
    assert (store.reads, store.writes) == (len(known), 2 * len(known)), "a write transaction each, and nothing else"


def test_all_event_types_are_listed_with_one_read_and_over_http(database: str, opened: list[Hub]) -> None:
    hub, store = open_hub(database, opened)
    assert [feed.name for feed in hub.registry.list()] == NAMES
    assert store.reads == 1

    with live_hub(database) as live, httpx2.Client(base_url=live.url, timeout=300) as http:
        answer = http.get("/event-types")
        described = http.get("/asyncapi.json")
        known = http.get("/asyncapi.json", headers={"If-None-Match": described.headers["etag"]})
        shown = http.get(f"/event-types/{NAMES[-1]}").json()
        published = http.post(f"/event-types/{NAMES[-1]}/events", json=[a_business_event()])

    assert answer.status_code == 200
    listed = answer.json()
    assert [each["name"] for each in listed] == NAMES
    assert listed[-1] == shown
    assert all(each["name"] in each["schema"]["schema"] for each in listed)
    assert (published.status_code, published.content) == (200, b"")
    assert list(described.json()["channels"]) == NAMES
    assert (known.status_code, known.content) == (304, b"")


def without_looks(said: list[str]) -> list[str]:
    """Return what was *said* besides the looks whether others write, which come at intervals."""
    return [statement for statement in said if not statement.startswith("PRAGMA data_version")]
