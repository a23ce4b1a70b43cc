"""A cursor behind retention or of a recreated event type is refused, and moved nowhere."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from penstock.client import Client
from penstock.errors import CursorExpired
from penstock.hub.hub import Hub
from penstock.testing.live_hub import LiveHub, live_hub
from tests.promises.scene import NAME, Follower, Remote, create, event
from tests.store_contract import database_at

V1 = f"/feeds/{NAME}?n=2&cursor0="
V2 = f"/feeds/{NAME}/events?token=1-2&partition=0&cursor="
VERSIONS = pytest.mark.parametrize(("path", "parameter"), [(V1, "cursor0"), (V2, "cursor")], ids=["v1", "v2"])


@pytest.fixture
def served(url: str) -> Iterator[LiveHub]:
    """A hub process with ten events in each of two partitions."""
    with live_hub(url) as served, closing(Remote(served.port)) as remote:
        remote.create(2)
        for partition in (0, 1):
            assert remote.publish(*({"n": n} for n in range(10)), partition=partition)[0] == 200
        yield served


@pytest.fixture
def remote(served: LiveHub) -> Iterator[Remote]:
    with closing(Remote(served.port)) as remote:
        yield remote


def retain(served: LiveHub, floor: int) -> None:
    """Remove the events below *floor* of partition 0, as retention does."""
    database = database_at(served.database)
    database.run("UPDATE penstock_partition SET floor = ? WHERE number = 0", floor)
    gone = "(SELECT id FROM penstock_partition WHERE number = 0)"
    database.run(f'DELETE FROM penstock_event WHERE "offset" < ? AND partition_id = {gone}', floor)


def numbers(remote: Remote, path: str) -> list[int]:
    """Return the numbers of the events of a page."""
    status, body, _ = remote.ask("GET", path)
    assert status == 200, body
    return [line["data"]["n"] for line in map(json.loads, body.splitlines()) if "data" in line]


def expiry_of(remote: Remote, path: str) -> dict[str, Any]:
    """Assert that a read is refused since its cursor has expired; return the problem."""
    status, body, headers = remote.ask("GET", path)
    problem: dict[str, Any] = json.loads(body)
    assert (status, headers["Content-Type"]) == (410, "application/problem+json")
    assert problem["type"] == "urn:penstock:problem:cursor-expired"
    return problem


# Retention


@VERSIONS
def test_cursor_behind_retention_is_410_with_the_number_of_lost_events(
    served: LiveHub, remote: Remote, path: str, parameter: str
) -> None:
    _, cursor = remote.page("_first", n=2, size=3)
    _, kept = remote.page("_first", n=2, size=7)
    retain(served, floor=7)

    problem = expiry_of(remote, path + cursor)

    assert (problem["parameter"], problem["event_type"], problem["partition"]) == (parameter, NAME, 0)
    assert problem["lost"] == 4
    assert numbers(remote, path + problem["first_available"]) == [7, 8, 9]
    assert numbers(remote, path + problem["last_available"]) == []
    assert numbers(remote, path + kept) == numbers(remote, path + "_first") == [7, 8, 9], "none after it is lost"


def test_following_client_is_told_where_to_go_on_and_is_moved_nowhere(served: LiveHub) -> None:
    with Client(served.url) as client:
        feed = client.feed(NAME)
        following = feed.follow({0: "_first"}, partitions=[0], page_size_hint=3)
        cursors = next(following).cursors
        retain(served, floor=7)

        for pages in (following, feed.follow(cursors, partitions=[0])):
            with pytest.raises(CursorExpired) as refused:
                next(pages)
            fields = refused.value.fields
            assert (fields["event_type"], fields["partition"], fields["lost"]) == (NAME, 0, 4)

        page = next(feed.follow({0: fields["first_available"]}, partitions=[0]))
        assert [each.data["n"] for each in page.events] == [7, 8, 9]


# A recreated event type


def fill(hub: Hub, name: str = NAME) -> None:
    """Publish ten events to the partitions of an event type in turn."""
    for n in range(10):
        hub.log.publish(name, [event({"n": n}, n % hub.registry.load(name).partition_count)])


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_cursor_of_a_recreated_event_type_is_refused_by_every_hub(hub: Hub, other: Hub, partitions: int) -> None:
    create(hub, "twice", partitions=2)
    follower, late = Follower(hub, (0, 1), "twice"), Follower(other, (0, 1), "twice")
    fill(hub, "twice")
    follower.page(4)
    late.all()

    other.registry.delete("twice")
    create(other, "twice", partitions=partitions)
    fill(other, "twice")

    for each in (follower, late):
        with pytest.raises(CursorExpired) as refused:
            each.page(n=2)
        assert refused.value.event_type == "twice"
    assert Follower(hub, range(partitions), "twice").page() == 10
