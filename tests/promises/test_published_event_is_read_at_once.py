"""The next read shows what was published or committed to the outbox before, through whichever hub process."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from penstock.testing.live_hub import live_hub
from penstock.wire.log.feedapi import ARROW
from tests.promises.scene import NAME, Follower, Remote, commit_to_outbox, hub_on, service

ROUNDS = 12


def test_next_read_shows_a_committed_outbox_event_beside_an_open_transaction(migrated_postgres_url: str) -> None:
    """On SQLite no other service can commit meanwhile."""
    url = migrated_postgres_url
    with hub_on(url, partitions=1) as hub, service(url) as (database, open_one):
        database.insert(open_one, NAME, '{"n":"late"}', partition=0)
        follower = Follower(hub)
        for n in range(3):
            commit_to_outbox(url, {"n": n})
            assert follower.page() == 1

        open_one.commit()

        assert follower.page() == 1
        assert [each["n"] for each in follower.found[0]] == [0, 1, 2, "late"]


@pytest.fixture
def remotes(url: str) -> Iterator[list[Remote]]:
    """Two hub processes on one database, over HTTP."""
    with ExitStack() as stack:
        hubs = [stack.enter_context(live_hub(url)) for _ in range(2)]
        remotes = [stack.enter_context(closing(Remote(hub.port))) for hub in hubs]
        remotes[0].create()
        yield remotes


def test_read_from_one_process_shows_events_acknowledged_by_another(remotes: list[Remote], url: str) -> None:
    cursors = ["_first", "_first"]
    for n in range(2 * ROUNDS):
        publisher, reader = n % 2, (n // 2) % 2
        if n % 4 == 3:
            commit_to_outbox(url, {"n": n})
        else:
            status, told = remotes[publisher].publish({"n": n})
            assert (status, told["count"]) == (200, 1)
            assert remotes[reader].page(told["cursors"]["0"])[0] == [], "the cursor of the answer is behind the event"

        found, cursors[reader] = remotes[reader].page(cursors[reader])

        assert found[-1] == {"n": n}


def test_filtered_read_and_head_request_show_committed_outbox_events(remotes: list[Remote], url: str) -> None:
    """The filter lets few of many events through, so that a page is not full where it comes to the head."""
    noise = [json.dumps({"data": {"n": n}, "partition": 0, "headers": {"ce_type": "noise"}}) for n in range(500)]
    status, body, _ = remotes[0].ask("POST", remotes[0].path, "\n".join(noise).encode())
    assert status == 200, body
    queries = [
        "?n=1&cursor0=_first",
        "?n=2&cursor0=_first&cursor1=_first",
        "/events?token=1-1&partition=0&cursor=_first",
    ]
    asked = [(query, accept) for query in queries for accept in ("*/*", ARROW)]
    for n, (query, accept) in enumerate(asked * 2):
        commit_to_outbox(url, {"fresh": n})
        path = f"{remotes[0].path}{query}&pagesizehint=10&event-types={NAME}"

        _, body, _ = remotes[n % 2].ask("GET", path, headers={"accept": accept})

        assert f'"fresh":{n}'.encode() in body.replace(b" ", b""), (query, accept)

        commit_to_outbox(url, {"n": n})
        status, _, headers = remotes[n % 2].ask(
            "HEAD", f"{remotes[0].path}?n=1&cursor0=_last", headers={"accept": ARROW}
        )
        assert (status, headers["penstock-cursor"].rpartition("-")[2]) == (200, f"{500 + 2 * n + 2}")
