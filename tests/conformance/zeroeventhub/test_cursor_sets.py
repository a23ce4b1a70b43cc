"""ZeroEventHub v1, server-side cursors: the hub keeps what a consumer came with, under the consumer's name."""

from typing import Any

import httpx2
import pytest

from tests.served import Page, Served, create, page_of, problem_of


def resume(feed: Served, name: str, partitions: str = "0", n: int | None = None, **arguments: Any) -> httpx2.Response:
    return feed.get(n=n or feed.partitions, cursorset=name, resume=partitions, **arguments)


def resumed(feed: Served, name: str, partitions: str = "0", **arguments: Any) -> Page:
    return page_of(resume(feed, name, partitions, **arguments))


def test_resuming_begins_where_the_last_request_began(feed4: Served) -> None:
    feed4.publish_lines({"data": {"id": p * 10 + i}, "partition": p} for p in range(4) for i in range(4))
    first = feed4.read(pagesizehint=8, cursorset="forwarder")
    assert resumed(feed4, "forwarder", "0,1,2,3", pagesizehint=8).ids == first.ids
    second = feed4.read(cursors=first.cursors, cursorset="forwarder")
    assert resumed(feed4, "forwarder", "0,1,2,3").ids == second.ids
    assert sorted(first.ids + second.ids) == sorted(p * 10 + i for p in range(4) for i in range(4))


def test_any_partitions_can_be_resumed(feed4: Served) -> None:
    feed4.publish_lines({"data": {"id": p}, "partition": p} for p in range(4))
    feed4.read(cursorset="me")
    assert resumed(feed4, "me", "2").ids == [2]
    assert resumed(feed4, "me", "3,1").ids == [1, 3]
    assert resumed(feed4, "me", "1,1").ids == [1]


def test_last_is_resolved_before_it_is_kept(feed4: Served) -> None:
    feed4.publish_ids(range(3), partition=0)
    assert feed4.read(cursors="_last", cursorset="me").ids == []
    feed4.publish_ids([3, 4], partition=0)
    assert resumed(feed4, "me").ids == [3, 4]


def test_storing_alone_reads_nothing(feed4: Served) -> None:
    feed4.publish_ids(range(5), partition=0)
    after_two = feed4.read(cursors={0: "_first"}, pagesizehint=2).cursors
    stored = feed4.read(cursors=after_two, cursorset="me", store_cursor=1, pagesizehint=0)
    assert stored.events == []
    assert stored.cursors == after_two
    assert resumed(feed4, "me").ids == [2, 3, 4]


def test_consumers_and_feeds_and_numbers_of_partitions_do_not_mix(feed4: Served) -> None:
    other = create(feed4.http, 4)
    for feed in (feed4, other):
        feed.publish_ids(range(3), partition=0)
    feed4.read(cursors={0: "_first"}, cursorset="a")
    feed4.read(cursors={0: "_last"}, cursorset="b")
    other.read(cursors={0: "_last"}, cursorset="a")
    feed4.read(2, {0: "_last"}, cursorset="a")
    assert resumed(feed4, "a").ids == [0, 1, 2]
    assert resumed(feed4, "b").ids == []
    assert resumed(other, "a").ids == []
    assert resumed(feed4, "a", n=2).ids == []


@pytest.mark.parametrize("n", [1, 2, 8])
def test_a_cursor_set_works_at_any_n(feed4: Served, n: int) -> None:
    feed4.publish_lines({"data": {"id": i}, "partition": i % 4, "key": str(i)} for i in range(40))
    every = ",".join(map(str, range(n)))
    first = feed4.read(n, pagesizehint=10)
    second = feed4.read(n, first.cursors, cursorset="me", pagesizehint=10_000)
    assert resumed(feed4, "me", every, n=n, pagesizehint=10_000).ids == second.ids
    assert sorted(first.ids + second.ids) == list(range(40))


def test_an_unknown_cursor_set_is_not_found(feed4: Served) -> None:
    problem = problem_of(resume(feed4, "nobody"), 404, "cursor-set-not-found")
    assert (problem["cursorset"], problem["partition"], problem["n"]) == ("nobody", 0, 4)
    feed4.read(cursors={0: "_first"}, cursorset="me")
    assert problem_of(resume(feed4, "me", "0,3"), 404, "cursor-set-not-found")["partition"] == 3
    assert problem_of(resume(feed4, "me", n=2), 404, "cursor-set-not-found")["n"] == 2


def test_a_dropped_feed_takes_its_cursor_sets_along(feed4: Served) -> None:
    feed4.read(cursorset="me")
    feed4.drop()
    again = create(feed4.http, 4, feed4.name)
    problem_of(resume(again, "me"), 404, "cursor-set-not-found")


@pytest.mark.parametrize("name", ["x", "a b", "~!@#$%^&*()[]{}|;:,.<>/?'\"", "n" * 50])
def test_a_name_is_up_to_fifty_characters_of_printable_ascii(feed: Served, name: str) -> None:
    feed.publish_ids([1])
    feed.read(cursorset=name)
    assert resumed(feed, name).ids == [1]


@pytest.mark.parametrize("name", ["", "n" * 51, "é", "a\nb", "\x00", "光"])
def test_any_other_name_is_refused(feed: Served, name: str) -> None:
    problem = problem_of(feed.get(n=1, cursor0="_first", cursorset=name), 400, "bad-parameter")
    assert problem["parameter"] == "cursorset"


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("resume=0", "resume"),
        ("cursorset=me&resume=0&cursor0=_first", "resume"),
        ("cursorset=me&resume=", "resume"),
        ("cursorset=me&resume=4", "resume"),
        ("cursorset=me&resume=0,,1", "resume"),
        ("cursorset=me&resume=-1", "resume"),
        ("cursorset=me&resume=0,x", "resume"),
        ("cursorset=me&resume=%FF", "resume"),
        ("cursor0=_first&store_cursor=1", "store_cursor"),
        ("cursorset=me&resume=0&store_cursor=1", "store_cursor"),
        ("cursorset=me", "cursor0"),
    ],
)
def test_what_does_not_go_together_is_refused(feed4: Served, query: str, parameter: str) -> None:
    feed4.read(cursorset="me")
    problem = problem_of(feed4.http.get(f"{feed4.path}?n=4&{query}"), 400, "bad-parameter")
    assert problem["parameter"] == parameter


def test_answers_that_depend_on_what_is_kept_are_not_cached(feed4: Served) -> None:
    assert feed4.get(n=4, cursor0="_first", cursorset="me").headers["cache-control"] == "no-store"
    assert resume(feed4, "me").headers["cache-control"] == "no-store"
    assert resume(feed4, "nobody").headers["cache-control"] == "no-store"


def test_what_is_refused_keeps_nothing(feed4: Served) -> None:
    feed4.get(n=4, cursor0="_first", cursor1="garbage", cursorset="me")
    problem_of(resume(feed4, "me"), 404, "cursor-set-not-found")


def test_asking_for_the_headers_alone_keeps_nothing(feed4: Served) -> None:
    answer = feed4.http.head(feed4.path, params={"n": 4, "cursor0": "_first", "cursorset": "me"})
    assert answer.status_code == 200
    problem_of(resume(feed4, "me"), 404, "cursor-set-not-found")


def test_a_waiting_consumer_is_kept_where_it_began(feed4: Served) -> None:
    feed4.publish_ids([1], partition=0)
    feed4.read(cursors={0: "_last"}, cursorset="me", wait="0.05")
    feed4.publish_ids([2], partition=0)
    assert resumed(feed4, "me").ids == [2]
