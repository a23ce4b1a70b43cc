import json
from contextlib import closing

import pytest

from penstock.errors import BadCursor, CursorExpired
from penstock.hub.hub import Hub
from penstock.testing.live_hub import live_hub
from tests.promises.scene import NAME, Follower, Remote, create, event, hub_on


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_an_old_cursor_is_told_and_never_moved(database_url: str, partitions: int) -> None:
    with hub_on(database_url, partitions=2) as hub, hub_on(database_url) as other:
        follower, late = Follower(hub, (0, 1)), Follower(other, (0, 1))
        _fill(hub)
        follower.page(4)
        late.all()

        other.delete_event_type(NAME)
        create(other, partitions=partitions)
        _fill(other)

        for each in (follower, late):
            with pytest.raises(CursorExpired) as told:
                each.page(n=2)
            assert told.value.fields["event_type"] == NAME
        anew = Follower(hub, range(partitions))
        assert anew.page() == 10


def test_a_cursor_of_another_feed_is_refused(database_url: str) -> None:
    with hub_on(database_url, partitions=1) as hub:
        create(hub, "other.one")
        _fill(hub)
        follower = Follower(hub)
        follower.page()
        stray = Follower(hub, name="other.one")
        stray.cursors = follower.cursors

        with pytest.raises(BadCursor):
            stray.page()


def test_the_answer_over_http_is_410_with_what_is_still_there(database_url: str) -> None:
    with live_hub(database_url) as hub, closing(Remote(hub.port)) as remote:
        remote.create()
        remote.publish({"n": 1})
        _, cursor = remote.page("_first")
        assert remote.ask("DELETE", f"/event-types/{NAME}")[0] == 200
        remote.create()
        remote.publish({"n": 2})

        status, body, _ = remote.ask("GET", f"/feeds/{NAME}?n=1&cursor0={cursor}")

        problem = json.loads(body)
        assert (status, problem["type"]) == (410, "urn:penstock:problem:cursor-expired")
        assert (problem["first_available"], problem["last_available"]) == ("_first", "_last")
        assert remote.all() == [{"n": 2}]


def _fill(hub: Hub) -> None:
    for n in range(10):
        hub.publish(NAME, [event({"n": n}, n % hub.event_type(NAME).partition_count)])
