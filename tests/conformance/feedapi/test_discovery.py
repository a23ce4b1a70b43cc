"""FeedAPI v2: discovery, the token, and telling the two versions of the protocol apart."""

import httpx2
import pytest

from tests.served import Served, create, page_of, problem_of


@pytest.mark.parametrize("partitions", [1, 12])
def test_discovery_names_the_token_and_every_partition(either_http: httpx2.Client, partitions: int) -> None:
    feed = create(either_http, partitions)
    answer = feed.get()
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == feed.http.get(f"{feed.path}?").json()
    assert answer.json() == {
        "token": f"1-{partitions}",
        "partitions": [{"id": str(number)} for number in range(partitions)],
        "exactlyOnce": False,
    }


def test_discovery_tells_whether_a_feed_is_published_exactly_once(http: httpx2.Client) -> None:
    once = create(http, options={"publishing": "exactly-once"})
    assert once.get().json()["exactlyOnce"] is True
    assert create(http, options={"publishing": "any"}).get().json()["exactlyOnce"] is False
    problem_of(once.post(b'{"data":{}}\n'), 409, "publishing-restricted")


def test_each_of_256_partitions_is_discovered_and_can_be_read(http: httpx2.Client) -> None:
    feed = create(http, 256)
    found = feed.get().json()
    assert [int(each["id"]) for each in found["partitions"]] == list(range(256))
    for partition in ("0", "255"):
        assert page_of(feed.events(token=found["token"], partition=partition)).cursor


@pytest.mark.parametrize("either_http", ["sqlite"], indirect=True)
def test_stale_token_is_answered_409_with_the_current_one(feed4: Served) -> None:
    for token in ("1-2", "2-4", "", "x", "%00", "é", "1-4 ", "9" * 5_000):
        problem = problem_of(feed4.events(token=token), 409, "stale-token")
        assert problem["current"] == "1-4"
        assert "Discover" in problem["hint"]


def test_recreated_feed_refuses_the_old_token_and_the_old_cursors(feed4: Served) -> None:
    old = feed4.get().json()["token"]
    cursor = feed4.read_v2().cursor
    feed4.drop()
    again = create(feed4.http, 4, feed4.name)
    for partition in range(4):
        problem_of(again.events(token=old, partition=partition, cursor=cursor), 409, "stale-token")
    new = again.get().json()["token"]
    assert new != old
    assert page_of(again.events(token=new)).events == []
    problem_of(again.events(token=new, cursor=cursor), 410, "cursor-expired")


def test_request_of_version_1_stays_one_with_a_token(feed: Served) -> None:
    assert problem_of(feed.get(token="1-1"), 400, "bad-parameter")["parameter"] == "n"


def test_unknown_feed_is_answered_404(http: httpx2.Client) -> None:
    for path in ("", "/events?token=1-1&partition=0&cursor=_first"):
        problem_of(http.get(f"/feeds/nowhere{path}"), 404, "event-type-not-found")
