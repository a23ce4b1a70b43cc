import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from penstock.testing.live_hub import live_hub
from penstock.wire.arrow import MEDIA_TYPE
from tests.promises.scene import NAME, Follower, Remote, commit_to_outbox, event, hub_on, service


def test_the_next_read_shows_what_was_published(migrated_url: str) -> None:
    with hub_on(migrated_url, partitions=2) as hub, hub_on(migrated_url) as other:
        followers = [Follower(hub, (0, 1)), Follower(other, (0, 1))]
        for n in range(40):
            (hub, other)[n % 2].publish(NAME, [event({"n": n}, n % 2)])
            for follower in followers:
                assert follower.page() == 1
                assert follower.found[n % 2][-1] == {"n": n}


def test_the_next_read_shows_what_was_committed_to_the_outbox(migrated_url: str) -> None:
    with hub_on(migrated_url, partitions=1) as hub, hub_on(migrated_url) as other:
        follower = Follower(hub), Follower(other)
        for n in range(40):
            commit_to_outbox(migrated_url, {"n": n}, {"n": -n})

            assert follower[n % 2].page() == (2 if n == 0 else 4)
            assert follower[n % 2].found[0][-2:] == [{"n": n}, {"n": -n}]


def test_heads_and_the_last_cursor_tell_of_what_was_committed_to_the_outbox(migrated_url: str) -> None:
    with hub_on(migrated_url, partitions=1) as hub:
        for n in range(10):
            commit_to_outbox(migrated_url, {"n": n})
            assert [head.next_offset for head in hub.heads(NAME)[1].values()] == [2 * n + 1]

            commit_to_outbox(migrated_url, {"n": n})
            follower = Follower(hub)
            follower.cursors = {0: "_last"}
            assert follower.page() == 0
            assert follower.cursors[0].endswith(f"-{2 * n + 2}")


def test_what_is_committed_while_another_transaction_is_open_shows_at_once(postgres_url: str) -> None:
    with hub_on(postgres_url, partitions=1) as hub, service(postgres_url) as (database, open_one):
        database.insert(open_one, NAME, '{"n":"late"}', partition=0)
        follower = Follower(hub)
        for n in range(5):
            commit_to_outbox(postgres_url, {"n": n})
            assert follower.page() == 1

        open_one.commit()

        assert follower.page() == 1
        assert [each["n"] for each in follower.found[0]] == [0, 1, 2, 3, 4, "late"]


@pytest.fixture
def remotes(migrated_url: str) -> Iterator[list[Remote]]:
    """Two hub processes on one database, over HTTP."""
    with ExitStack() as stack:
        hubs = [stack.enter_context(live_hub(migrated_url)) for _ in range(2)]
        remotes = [Remote(hub.port) for hub in hubs]
        remotes[0].create()
        yield remotes
        for remote in remotes:
            remote.close()


def test_a_read_from_one_process_shows_what_another_has_acknowledged(remotes: list[Remote], migrated_url: str) -> None:
    cursors = ["_first", "_first"]
    for n in range(40):
        publisher, reader = n % 2, (n // 2) % 2
        if n % 4 == 3:
            commit_to_outbox(migrated_url, {"n": n})
        else:
            status, _ = remotes[publisher].publish({"n": n})
            assert status == 200

        found, cursors[reader] = remotes[reader].page(cursors[reader])

        assert found[-1] == {"n": n}


@pytest.mark.parametrize("accept", ["*/*", MEDIA_TYPE])
@pytest.mark.parametrize(
    "query",
    [
        f"?n=1&cursor0=_first&pagesizehint=10&event-types={NAME}",
        f"?n=2&cursor0=_first&cursor1=_first&pagesizehint=10&event-types={NAME}",
        f"/events?token=1-1&partition=0&cursor=_first&pagesizehint=10&event-types={NAME}",
    ],
    ids=["v1", "split", "v2"],
)
def test_a_filtered_read_shows_what_was_committed_to_the_outbox(
    remotes: list[Remote], migrated_url: str, query: str, accept: str
) -> None:
    """It has few of many events, so that a page is not full where it comes to the head."""
    noise = [json.dumps({"data": {"n": n}, "partition": 0, "headers": {"ce_type": "noise"}}) for n in range(500)]
    status, body, _ = remotes[0].ask("POST", remotes[0].path, "\n".join(noise).encode())
    assert status == 200, body
    for n in range(10):
        commit_to_outbox(migrated_url, {"fresh": n})

        _, body, _ = remotes[n % 2].ask("GET", remotes[0].path + query, headers={"accept": accept})

        assert f'"fresh":{n}'.encode() in body.replace(b" ", b"")


def test_a_page_that_is_only_asked_about_tells_of_what_was_committed_to_the_outbox(
    remotes: list[Remote], migrated_url: str
) -> None:
    path = f"{remotes[0].path}?n=1&cursor0=_last"
    for n in range(10):
        commit_to_outbox(migrated_url, {"n": n})

        status, _, headers = remotes[n % 2].ask("HEAD", path, headers={"accept": MEDIA_TYPE})

        assert status == 200
        assert headers["penstock-cursor"].endswith(f"-{n + 1}")


def test_the_cursor_that_a_publish_answers_with_is_just_after_it(remotes: list[Remote]) -> None:
    for n in range(10):
        status, told = remotes[n % 2].publish({"n": n}, {"n": -n})
        assert (status, told["count"]) == (200, 2)

        assert remotes[(n + 1) % 2].page(told["cursors"]["0"])[0] == []
