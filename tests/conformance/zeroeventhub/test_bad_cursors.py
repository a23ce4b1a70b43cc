"""ZeroEventHub v1: a cursor that cannot be used is never silently moved, and the answer names it."""

import httpx2
import pytest

from tests.served import Served, create, problem_of

GARBAGE = [
    "garbage",
    "1-2-3",
    "1-00000000-1-1-1-0-" + "9" * 19,
    "_FIRST",
    "_first ",
    "null",
    "-1",
    "1",
    "../../etc/passwd",
    "'; DROP TABLE penstock_event; --",
    "~" * 10_000,
    "1-" + "0" * 10_000,
]
NOT_PRINTABLE = ["", "\x00", "\n", "é", "光", "\x7f", "🦑" * 100, "x" * 10_000]


@pytest.mark.parametrize("cursor", GARBAGE, ids=lambda text: text[:20])
def test_garbage_is_named(feed4: Served, cursor: str) -> None:
    problem = problem_of(feed4.get(n=4, cursor0="_first", cursor2=cursor), 400, "bad-cursor")
    assert problem["parameter"] == "cursor2"
    assert problem["value"] == cursor[:80]


@pytest.mark.parametrize("cursor", NOT_PRINTABLE, ids=range(len(NOT_PRINTABLE)))
def test_what_is_no_printable_ascii_is_named(feed: Served, cursor: str) -> None:
    problem = problem_of(feed.get(n=1, cursor0=cursor), 400, "bad-cursor")
    assert problem["parameter"] == "cursor0"
    assert len(problem["value"]) <= 80


@pytest.mark.parametrize(
    "query", ["n=1&cursor0=%FF", "n=1&cursor0=%C3%28", "n=1&cursor0=a%00b", "n=1&cursor0=%ED%A0%80"]
)
def test_bytes_that_are_no_text_are_answered_too(feed: Served, query: str) -> None:
    problem_of(feed.http.get(f"{feed.path}?{query}"), 400, "bad-cursor")


def test_a_cursor_of_another_feed_is_refused(feed4: Served) -> None:
    other = create(feed4.http, 4)
    problem = problem_of(feed4.get(n=4, cursor1=other.read().cursors[1]), 400, "bad-cursor")
    assert problem["parameter"] == "cursor1"
    assert "another feed" in problem["reason"]


def test_a_cursor_of_another_partition_is_refused(feed4: Served) -> None:
    problem = problem_of(feed4.get(n=4, cursor1=feed4.read().cursors[2]), 400, "bad-cursor")
    assert problem["parameter"] == "cursor1"
    assert problem["partition"] == 2


def test_a_cursor_after_the_end_is_refused(feed4: Served) -> None:
    feed4.publish_ids(range(5), partition=0)
    *start, offset = feed4.read().cursors[0].split("-")
    for beyond in (6, 7, 10**17):
        problem = problem_of(feed4.get(n=4, cursor0="-".join([*start, str(beyond)])), 400, "bad-cursor")
        assert "after the end" in problem["reason"]
        assert "offset 5" in problem["reason"]
    assert offset == "5"


def test_a_feed_that_was_created_again_knows_the_old_cursors_as_gone(feed4: Served) -> None:
    feed4.publish_ids(range(5), partition=0)
    cursor = feed4.read().cursors[0]
    feed4.drop()
    again = create(feed4.http, 4, feed4.name)
    again.publish_ids(range(100, 103), partition=0)
    problem = problem_of(again.get(n=4, cursor0=cursor), 410, "cursor-expired")
    assert problem["parameter"] == "cursor0"
    assert problem["event_type"] == feed4.name
    assert problem["partition"] == 0
    assert problem["lost"] is None
    assert again.read(cursors={0: problem["first_available"]}).ids == [100, 101, 102]
    assert again.read(cursors={0: problem["last_available"]}).ids == []


def test_one_bad_cursor_among_good_ones_refuses_all(feed4: Served) -> None:
    feed4.publish_ids(range(3), partition=0)
    problem_of(feed4.get(n=4, cursor0="_first", cursor3="garbage"), 400, "bad-cursor")


@pytest.mark.parametrize(
    "name", ["cursor4", "cursor00", "cursor01", "cursor-1", "cursor", "cursorx", "cursor99999", "cursors"]
)
def test_an_unknown_parameter_that_begins_with_cursor_is_refused(feed4: Served, name: str) -> None:
    problem = problem_of(feed4.get(n=4, cursor0="_first", **{name: "_first"}), 400, "bad-parameter")
    assert problem["parameter"] == name
    assert "cursor0 to cursor3" in problem["allowed"]


def test_other_unknown_parameters_are_passed_over(feed: Served) -> None:
    feed.publish_ids([1])
    assert feed.read(foo="bar", Cursor0="x", N="9", _="1").ids == [1]


@pytest.mark.parametrize(
    "twice", ["n=1&n=1&cursor0=_first", "n=1&cursor0=_first&cursor0=_first", "n=1&cursor0=_first&wait=1&wait=2"]
)
def test_a_parameter_that_is_given_twice_is_refused(feed: Served, twice: str) -> None:
    problem = problem_of(feed.http.get(f"{feed.path}?{twice}"), 400, "bad-parameter")
    assert problem["allowed"] == "one value"


def test_a_read_without_any_cursor_is_refused(feed: Served) -> None:
    assert problem_of(feed.get(n=1), 400, "bad-parameter")["parameter"] == "cursor0"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pagesizehint", "many"),
        ("pagesizehint", "-1"),
        ("pagesizehint", "1e3"),
        ("wait", "soon"),
        ("wait", "-1"),
        ("wait", "nan"),
        ("store_cursor", "2"),
        ("event_types", ""),
        ("event_types", ";"),
        ("skip_event_types", " ; "),
    ],
)
def test_a_malformed_parameter_is_named_with_its_value_and_what_is_allowed(feed: Served, name: str, value: str) -> None:
    problem = problem_of(feed.get(n=1, cursor0="_first", **{name: value}), 400, "bad-parameter")
    assert problem["parameter"] == name.replace("_types", "-types").replace("skip_", "skip-")
    assert problem["value"] == value
    assert problem["allowed"]


def test_a_feed_that_does_not_exist_is_not_found(either_http: httpx2.Client) -> None:
    for path in (
        "/feeds/nowhere?n=1&cursor0=_first",
        "/feeds/nowhere",
        "/feeds/a%00b?n=1&cursor0=_first",
        "/feeds/%FF",
    ):
        problem = problem_of(either_http.get(path), 404, "event-type-not-found")
        assert "hint" in problem
