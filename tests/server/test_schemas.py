"""Pages of schema versions are bounded, and linked to the next and the previous one."""

import json
from contextlib import closing
from typing import Any

import httpx2
import pytest

from penstock.core.registry.event_type import EventType
from penstock.server.registry import PAGE_BYTES
from penstock.storage import open_store
from penstock.testing.live_hub import LiveHub
from tests.served import Served, create

LARGE = 450_000
VERSIONS = 42


def with_versions(hub: LiveHub, http: httpx2.Client, count: int, chars: int) -> Served:
    """Create an event type whose schema has *count* versions; those after the first are put right into the database."""
    feed = create(http, compatibility_mode="none", schema=a_schema(0, chars))
    with closing(open_store(hub.database)) as store, store.write() as tx:
        for number in range(1, count):
            found = tx.registry.get(feed.name)
            schema = a_schema(number, chars) | {"version": f"1.0.{number}"}
            event_type = EventType.of(found.event_type.definition | {"schema": schema}, found.partition_count)
            tx.registry.update(found, event_type, found.updated_at)
    return feed


def a_schema(number: int, chars: int) -> dict[str, str]:
    return {"type": "json_schema", "schema": json.dumps({"description": f"{number:06}" + "x" * chars})}


def pages(http: httpx2.Client, path: str) -> list[list[int]]:
    """The numbers of the versions on each page from *path* on, as their links lead."""
    found = []
    at: dict[str, Any] = {"href": path}
    while at:
        answer = http.get(at["href"])
        assert answer.status_code == 200
        assert len(answer.content) < PAGE_BYTES + (512 << 10) + 1_000
        page = answer.json()
        found.append([int(json.loads(each["schema"])["description"][:6]) for each in page["items"]])
        at = page["_links"].get("next")
    return found


def test_page_of_large_versions_ends_early_and_links_to_the_rest(sqlite_hub: LiveHub, http: httpx2.Client) -> None:
    feed = with_versions(sqlite_hub, http, VERSIONS, LARGE)

    found = pages(http, f"/event-types/{feed.name}/schemas?limit=1000")

    assert [len(page) for page in found] == [19, 19, 4]
    assert [number for page in found for number in page] == [*reversed(range(VERSIONS))]


@pytest.mark.parametrize(
    ("limit", "lengths"),
    [(1, [1] * 45), (20, [20, 20, 5]), (44, [44, 1]), (45, [45])],
)
def test_page_of_small_versions_has_as_many_as_its_limit(
    http: httpx2.Client, small: Served, limit: int, lengths: list[int]
) -> None:
    found = pages(http, f"/event-types/{small.name}/schemas?limit={limit}")

    assert [len(page) for page in found] == lengths
    assert [number for page in found for number in page] == [*reversed(range(45))]


def test_page_links_to_the_previous_one(http: httpx2.Client, small: Served) -> None:
    page = http.get(f"/event-types/{small.name}/schemas?limit=30&offset=40").json()

    assert len(page["items"]) == 5
    assert page["_links"] == {"prev": {"href": f"/event-types/{small.name}/schemas?offset=10&limit=30"}}


@pytest.fixture
def small(sqlite_hub: LiveHub, http: httpx2.Client) -> Served:
    """An event type whose schema has 45 versions."""
    return with_versions(sqlite_hub, http, 45, 1)
