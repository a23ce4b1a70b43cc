"""ZeroEventHub v1, server-side cursors: the hub keeps the cursors with which a consumer came, under its name."""

from typing import Any

import httpx2
import pytest

from tests.served import Page, Served, create, page_of, problem_of


def resume(feed: Served, name: str, partitions: str = "0", n: int | None = None, **arguments: Any) -> httpx2.Response:
    return feed.get(n=n or feed.partitions, cursorset=name, resume=partitions, **arguments)


def resumed(feed: Served, name: str, partitions: str = "0", **arguments: Any) -> Page:
    return page_of(resume(feed, name, partitions, **arguments))


def test_resumed_request_begins_where_the_last_one_began(feed4: Served) -> None:
    feed4.publish_lines({"data": {"id": p * 10 + i}, "partition": p} for p in range(4) for i in range(4))
    first = feed4.read(pagesizehint=8, cursorset="forwarder")
    assert resumed(feed4, "forwarder", "0,1,2,3", pagesizehint=8).ids == first.ids
    second = feed4.read(cursors=first.cursors, cursorset="forwarder")
    assert resumed(feed4, "forwarder", "0,1,2,3").ids == second.ids
    assert sorted(first.ids + second.ids) == sorted(p * 10 + i for p in range(4) for i in range(4))
    for partitions in ("2", "3,1", "1,1"):
        wanted = {int(each) for each in partitions.split(",")}
        assert {line["partition"] for line in resumed(feed4, "forwarder", partitions).lines} == wanted


def test_last_is_resolved_before_it_is_kept(feed4: Served) -> None:
    feed4.publish_ids(range(3), partition=0)
    assert feed4.read(cursors="_last", cursorset="me", wait="0.01").ids == []
    feed4.publish_ids([3, 4], partition=0)
    assert resumed(feed4, "me").ids == [3, 4]


def test_request_that_only_stores_reads_nothing(feed4: Served) -> None:
    feed4.publish_ids(range(5), partition=0)
    after_two = feed4.read(cursors={0: "_first"}, pagesizehint=2).cursors
    stored = feed4.read(cursors=after_two, cursorset="me", store_cursor=1, pagesizehint=0)
    assert (stored.events, stored.cursors) == ([], after_two)
    assert resumed(feed4, "me").ids == [2, 3, 4]


def test_cursor_sets_of_other_consumers_feeds_and_partition_counts_are_separate(feed4: Served) -> None:
    other = create(feed4.http, 4)
    for feed in (feed4, other):
        feed.publish_ids(range(3), partition=0)
    feed4.read(cursors={0: "_first"}, cursorset="a")
    feed4.read(cursors={0: "_last"}, cursorset="b")
    other.read(cursors={0: "_last"}, cursorset="a")
    feed4.read(2, {0: "_last"}, cursorset="a")
    assert resumed(feed4, "a").ids == [0, 1, 2]
    assert resumed(feed4, "b").ids == resumed(other, "a").ids == resumed(feed4, "a", n=2).ids == []


@pytest.mark.parametrize("n", [1, 2, 8])
def test_cursor_set_is_resumed_at_any_n(feed4: Served, n: int) -> None:
    feed4.publish_lines({"data": {"id": i}, "partition": i % 4, "key": str(i)} for i in range(40))
    first = feed4.read(n, pagesizehint=10)
    second = feed4.read(n, first.cursors, cursorset="me", pagesizehint=10_000)
    assert resumed(feed4, "me", ",".join(map(str, range(n))), n=n, pagesizehint=10_000).ids == second.ids
    assert sorted(first.ids + second.ids) == list(range(40))


def test_unknown_cursor_set_is_answered_404(feed4: Served) -> None:
    """A refused request and a HEAD keep nothing, and a dropped feed takes its cursor sets along."""
    problem = problem_of(resume(feed4, "nobody"), 404, "cursor-set-not-found")
    assert (problem["cursorset"], problem["partition"], problem["n"]) == ("nobody", 0, 4)
    feed4.get(n=4, cursor0="_first", cursor1="garbage", cursorset="me")
    asked = {"n": 4, "cursor0": "_first", "cursorset": "me"}
    assert feed4.http.head(feed4.path, params=asked).status_code == 200
    problem_of(resume(feed4, "me"), 404, "cursor-set-not-found")
    feed4.read(cursors={0: "_first"}, cursorset="me")
    assert problem_of(resume(feed4, "me", "0,3"), 404, "cursor-set-not-found")["partition"] == 3
    assert problem_of(resume(feed4, "me", n=2), 404, "cursor-set-not-found")["n"] == 2
    feed4.drop()
    problem_of(resume(create(feed4.http, 4, feed4.name), "me"), 404, "cursor-set-not-found")


@pytest.mark.parametrize("name", ["a b", "~!@#$%^&*()[]{}|;:,.<>/?'\"", "n" * 50])
def test_name_of_a_cursor_set_is_up_to_50_characters_of_printable_ascii(feed: Served, name: str) -> None:
    feed.publish_ids([1])
    feed.read(cursorset=name)
    assert resumed(feed, name).ids == [1]
    for wrong in ("", "n" * 51, "é", "a\nb", "\x00", "光"):
        problem = problem_of(feed.get(n=1, cursor0="_first", cursorset=wrong), 400, "bad-parameter")
        assert problem["parameter"] == "cursorset"


@pytest.mark.parametrize("either_http", ["sqlite"], indirect=True)
def test_contradictory_parameters_are_refused(feed4: Served) -> None:
    feed4.read(cursorset="me")
    for query, parameter in (
        ("resume=0", "resume"),
        ("cursorset=me&resume=0&cursor0=_first", "resume"),
        *((f"cursorset=me&resume={partitions}", "resume") for partitions in ("", "4", "0,,1", "-1", "0,x", "%FF")),
        ("cursor0=_first&store_cursor=1", "store_cursor"),
        ("cursorset=me&resume=0&store_cursor=1", "store_cursor"),
        ("cursorset=me", "cursor0"),
    ):
        problem = problem_of(feed4.http.get(f"{feed4.path}?n=4&{query}"), 400, "bad-parameter")
        assert problem["parameter"] == parameter, query


def test_answers_that_depend_on_a_cursor_set_are_not_cached(feed4: Served) -> None:
    answers = [feed4.get(n=4, cursor0="_first", cursorset="me"), resume(feed4, "me"), resume(feed4, "nobody")]
    assert [each.headers["cache-control"] for each in answers] == ["no-store"] * 3
