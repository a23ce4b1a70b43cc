"""FeedAPI v2: the events endpoint."""

from itertools import pairwise
from typing import Any

import httpx2
import pytest

from tests.served import NDJSON, Served, create, page_of, problem_of


def test_lines_are_events_or_cursors_and_the_last_is_a_cursor(feed4: Served) -> None:
    feed4.publish_ids(range(3), partition=1)
    page = feed4.read_v2(partition=1)
    assert page.lines[:-1] == [{"data": {"id": number}} for number in range(3)]
    assert set(page.lines[-1]) == {"cursor"}


def test_there_is_a_cursor_even_where_there_is_nothing(feed4: Served) -> None:
    (only,) = feed4.read_v2(partition=3).lines
    assert set(only) == {"cursor"}
    assert feed4.read_v2(only["cursor"], 3).cursor == only["cursor"]


def test_a_cursor_goes_on_exactly_after_what_was_read(feed4: Served) -> None:
    feed4.publish_ids(range(23), partition=2)
    seen: list[int] = []
    cursor, before = "_first", ""
    while cursor != before:
        page = feed4.read_v2(cursor, 2, pagesizehint=5)
        seen += page.ids
        before, cursor = cursor, page.cursor
    assert seen == list(range(23))


def test_partitions_are_read_apart(feed4: Served) -> None:
    feed4.publish_lines({"data": {"id": p}, "partition": p} for p in range(4))
    assert [feed4.read_v2(partition=p).ids for p in range(4)] == [[0], [1], [2], [3]]


def test_last_stands_at_the_head(feed4: Served) -> None:
    feed4.publish_ids([1], partition=0)
    cursor = feed4.read_v2("_last").cursor
    feed4.publish_ids([2], partition=0)
    assert feed4.read_v2(cursor).ids == [2]


def test_the_hint_is_a_thousand_by_default_and_zero_gives_a_cursor_alone(feed: Served) -> None:
    feed.publish_ids(range(1_100))
    assert len(feed.read_v2().ids) == 1_000
    assert len(feed.read_v2(pagesizehint=1_050).ids) == 1_050
    (only,) = feed.read_v2(pagesizehint=0).lines
    assert feed.read_v2(only["cursor"]).ids[0] == 0


def test_headers_are_shown_on_request(feed: Served) -> None:
    feed.publish_lines([{"data": {"id": 1}, "headers": {"a": "1"}}])
    assert feed.read_v2().lines[0] == {"data": {"id": 1}}
    assert feed.read_v2(headers="a").lines[0] == {"headers": {"a": "1"}, "data": {"id": 1}}
    assert feed.read_v2(headers="_all").lines[0]["headers"]["ce_type"] == feed.name


def test_cursors_of_both_versions_are_the_same(feed4: Served) -> None:
    feed4.publish_ids(range(4), partition=1)
    v2 = feed4.read_v2(partition=1, pagesizehint=2).cursor
    assert feed4.read(cursors={1: v2}).ids == [2, 3]
    v1 = feed4.read(1, pagesizehint=3).cursor
    assert feed4.read_v2(v1, 1).ids == [3]


@pytest.mark.parametrize("until", ["_first", "_last"])
def test_until_takes_the_ends_of_the_feed_too(feed4: Served, until: str) -> None:
    feed4.publish_ids(range(4), partition=0)
    assert feed4.read_v2(until=until).ids == ([] if until == "_first" else [0, 1, 2, 3])


def test_a_page_stops_at_until(feed4: Served) -> None:
    feed4.publish_ids(range(10), partition=0)
    until = feed4.read_v2(pagesizehint=7).cursor
    page = feed4.read_v2(until=until)
    assert page.ids == list(range(7))
    assert page.cursor == until
    assert feed4.read_v2(page.cursor, until=until).ids == []
    assert feed4.read_v2(pagesizehint=3, until=until).ids == [0, 1, 2]


def test_ranges_between_cursors_can_be_read_in_parallel_and_meet(feed4: Served) -> None:
    feed4.publish_ids(range(90), partition=0)
    bounds = ["_first"]
    for _ in range(3):
        bounds.append(feed4.read_v2(bounds[-1], pagesizehint=30).cursor)
    parts = [feed4.read_v2(a, until=b).ids for a, b in pairwise(bounds)]
    assert [number for part in parts for number in part] == list(range(90))


def test_an_until_before_the_cursor_gives_the_cursor_back(feed4: Served) -> None:
    feed4.publish_ids(range(5), partition=0)
    early, late = (feed4.read_v2(pagesizehint=hint).cursor for hint in (1, 4))
    page = feed4.read_v2(late, until=early)
    assert (page.ids, page.cursor) == ([], late)


def test_until_does_not_wait(feed4: Served) -> None:
    assert feed4.read_v2("_last", until="_last", wait=55).ids == []


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"cursor": "garbage"}, "cursor"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": "é"}, "cursor"),
        ({"cursor": "x" * 10_000}, "cursor"),
        ({"until": "garbage"}, "until"),
        ({"until": "x" * 10_000}, "until"),
    ],
    ids=["garbage", "empty", "letters", "long", "until", "long until"],
)
def test_a_cursor_that_cannot_be_used_is_named(feed4: Served, given: dict[str, str], parameter: str) -> None:
    assert problem_of(feed4.events(**given), 400, "bad-cursor")["parameter"] == parameter


def test_cursors_of_other_places_are_refused(feed4: Served) -> None:
    other = create(feed4.http, 4)
    for cursor in (feed4.read_v2(partition=2).cursor, other.read_v2().cursor, feed4.read(8).cursors[0]):
        problem_of(feed4.events(cursor=cursor), 400, "bad-cursor")
        problem_of(feed4.events(until=cursor), 400, "bad-cursor")


@pytest.mark.parametrize("partition", ["4", "32767"])
def test_a_partition_that_the_feed_has_not_is_404_naming_how_many_there_are(feed4: Served, partition: str) -> None:
    assert problem_of(feed4.events(partition=partition), 404, "partition-not-found")["partition_count"] == 4


@pytest.mark.parametrize("partition", ["-1", "x", "", "32768", "0.0", "0x1"])
def test_a_partition_that_is_no_id_is_400(feed4: Served, partition: str) -> None:
    assert problem_of(feed4.events(partition=partition), 400, "bad-parameter")["parameter"] == "partition"


@pytest.mark.parametrize("missing", ["token", "partition", "cursor"])
def test_what_is_missing_is_named(feed: Served, missing: str) -> None:
    given: dict[str, Any] = {"token": "1-1", "partition": 0, "cursor": "_first"}
    del given[missing]
    problem = problem_of(feed.get("/events", **given), 400, "bad-parameter")
    assert (problem["parameter"], problem["value"]) == (missing, None)


def test_unknown_parameters_are_passed_over(feed: Served) -> None:
    feed.publish_ids([1])
    assert feed.read_v2(cursor0="x", n=7, anything="").ids == [1]


def test_a_parameter_given_twice_is_refused(feed: Served) -> None:
    answer = feed.http.get(f"{feed.path}/events?token=1-1&partition=0&cursor=_first&cursor=_last")
    assert problem_of(answer, 400, "bad-parameter")["parameter"] == "cursor"


def test_the_answer_is_lines_in_utf_8(http: httpx2.Client) -> None:
    feed = create(http)
    feed.post('{"data":{"name":"Æ🦑"}}\n'.encode())
    answer = feed.events()
    assert answer.headers["content-type"] == NDJSON
    assert answer.content.startswith('{"data":{"name":"Æ🦑"}}\n'.encode())
    assert page_of(answer).events == [{"name": "Æ🦑"}]
