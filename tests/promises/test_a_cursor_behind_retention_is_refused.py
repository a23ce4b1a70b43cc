import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock.client import Client
from penstock.errors import CursorExpired
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.store_contract import database_at
from tests.promises.scene import NAME, Remote

V1 = f"/feeds/{NAME}?n=2&cursor0="
V2 = f"/feeds/{NAME}/events?token=1-2&partition=0&cursor="
EXPIRED = "urn:penstock:problem:cursor-expired"


@pytest.fixture
def hub(migrated_url: str) -> Iterator[LiveHub]:
    """A hub with ten events in each of two partitions."""
    with live_hub(migrated_url) as hub, closing(Remote(hub.port)) as remote:
        remote.create(2)
        for partition in (0, 1):
            assert remote.publish(*({"n": n} for n in range(10)), partition=partition)[0] == 200
        yield hub


@pytest.mark.parametrize(("path", "parameter"), [(V1, "cursor0"), (V2, "cursor")], ids=["v1", "v2"])
def test_the_answer_is_410_with_what_was_lost_and_what_is_still_there(hub: LiveHub, path: str, parameter: str) -> None:
    with closing(Remote(hub.port)) as remote:
        _, cursor = remote.page("_first", n=2, size=3)
        _retain(hub, floor=7)

        status, body, headers = remote.ask("GET", path + cursor)

        problem = json.loads(body)
        assert (status, problem["type"], headers["Content-Type"]) == (410, EXPIRED, "application/problem+json")
        assert (problem["parameter"], problem["event_type"], problem["partition"]) == (parameter, NAME, 0)
        assert problem["lost"] == 4
        assert _numbers(remote, path + problem["first_available"]) == [7, 8, 9]
        assert _numbers(remote, path + problem["last_available"]) == []


@pytest.mark.parametrize("path", [V1, V2], ids=["v1", "v2"])
def test_who_has_seen_all_that_is_gone_notices_nothing(hub: LiveHub, path: str) -> None:
    with closing(Remote(hub.port)) as remote:
        _, cursor = remote.page("_first", n=2, size=7)
        _retain(hub, floor=7)

        assert _numbers(remote, path + cursor) == [7, 8, 9]
        assert _numbers(remote, path + "_first") == [7, 8, 9]


def test_merged_partitions_are_counted_together(hub: LiveHub) -> None:
    with closing(Remote(hub.port)) as remote:
        _, cursor = remote.page("_first", size=0)
        _retain(hub, floor=7)

        status, body, _ = remote.ask("GET", f"/feeds/{NAME}?n=1&cursor0={cursor}")

        problem = json.loads(body)
        assert (status, problem["lost"]) == (410, 7)
        found = _numbers(remote, f"/feeds/{NAME}?n=1&cursor0={problem['first_available']}")
        assert sorted(found) == sorted([*range(7, 10), *range(10)])


def test_one_who_follows_is_told_where_to_go_on_and_is_moved_nowhere(hub: LiveHub) -> None:
    with Client(hub.url) as client:
        feed = client.feed(NAME)
        following = feed.follow({0: "_first"}, partitions=[0], page_size_hint=3)
        cursors = next(following).cursors
        _retain(hub, floor=7)

        for pages in (following, feed.follow(cursors, partitions=[0])):
            with pytest.raises(CursorExpired) as told:
                next(pages)
            assert (told.value.fields["event_type"], told.value.fields["partition"]) == (NAME, 0)
            assert told.value.fields["lost"] == 4

        page = next(feed.follow({0: told.value.fields["first_available"]}, partitions=[0]))
        assert [event.data["n"] for event in page.events] == [7, 8, 9]


def _retain(hub: LiveHub, floor: int) -> None:
    """Remove what lies below *floor* in the first partition, as retention will."""
    database = database_at(hub.database)
    database.run("UPDATE penstock_partition SET floor = ? WHERE number = 0", floor)
    gone = "(SELECT id FROM penstock_partition WHERE number = 0)"
    database.run(f'DELETE FROM penstock_event WHERE "offset" < ? AND partition_id = {gone}', floor)


def _numbers(remote: Remote, path: str) -> list[int]:
    status, body, _ = remote.ask("GET", path)
    assert status == 200, body
    return [line["data"]["n"] for line in map(json.loads, body.splitlines()) if "data" in line]
