"""FeedAPI v2: discovery, the token, and telling the two versions of the protocol apart."""

import httpx2
import pytest

from tests.served import Served, create, page_of, problem_of


@pytest.mark.parametrize("partitions", [1, 2, 12])
def test_discovery_names_the_token_and_every_partition(either_http: httpx2.Client, partitions: int) -> None:
    feed = create(either_http, partitions)
    answer = feed.get()
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "token": f"1-{partitions}",
        "partitions": [{"id": str(number)} for number in range(partitions)],
        "exactlyOnce": False,
    }


def test_a_question_mark_alone_is_no_argument(feed: Served) -> None:
    assert feed.http.get(f"{feed.path}?").json()["token"] == "1-1"


def test_exactly_once_is_said_of_those_alone_that_are_published_so(http: httpx2.Client) -> None:
    once = create(http, options={"publishing": "exactly-once"})
    assert once.get().json()["exactlyOnce"] is True
    assert create(http, options={"publishing": "any"}).get().json()["exactlyOnce"] is False
    problem_of(once.post(b'{"data":{}}\n'), 409, "publishing-restricted")


def test_every_partition_id_fits_sixteen_bits_and_can_be_read(http: httpx2.Client) -> None:
    feed = create(http, 256)
    found = feed.get().json()
    assert [int(each["id"]) for each in found["partitions"]] == list(range(256))
    for partition in (found["partitions"][0]["id"], found["partitions"][-1]["id"]):
        assert page_of(feed.events(token=found["token"], partition=partition)).cursor


@pytest.mark.parametrize("token", ["1-2", "2-4", "", "x", "1", "%00", "é", "1-4 ", "9" * 5_000])
def test_a_token_out_of_date_is_answered_409_naming_the_new_one(feed4: Served, token: str) -> None:
    problem = problem_of(feed4.events(token=token), 409, "stale-token")
    assert problem["current"] == "1-4"
    assert "Discover" in problem["hint"]


def test_a_feed_created_again_has_another_token_and_refuses_the_old_one_for_all_partitions(feed4: Served) -> None:
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


def test_the_presence_of_a_token_makes_no_v1_request_a_v2_one(feed: Served) -> None:
    assert problem_of(feed.get(token="1-1"), 400, "bad-parameter")["parameter"] == "n"


def test_discovery_of_what_does_not_exist_is_404(http: httpx2.Client) -> None:
    problem_of(http.get("/feeds/nowhere"), 404, "event-type-not-found")
    problem_of(http.get("/feeds/nowhere/events?token=1-1&partition=0&cursor=_first"), 404, "event-type-not-found")
