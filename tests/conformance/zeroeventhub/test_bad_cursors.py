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
    "-1",
    "../../etc/passwd",
    "'; DROP TABLE penstock_event; --",
    "~" * 10_000,
]
NOT_PRINTABLE = ["", "\x00", "\n", "é", "光", "\x7f", "🦑" * 100]
NOT_UTF_8 = ["%FF", "%C3%28", "a%00b", "%ED%A0%80"]


def test_malformed_cursor_is_named(feed: Served) -> None:
    for cursor in GARBAGE + NOT_PRINTABLE:
        problem = problem_of(feed.get(n=1, cursor0=cursor), 400, "bad-cursor")
        assert problem["parameter"] == "cursor0"
        assert problem["value"] == cursor[:80] if cursor in GARBAGE else len(problem["value"]) <= 80
    for text in NOT_UTF_8:
        problem_of(feed.http.get(f"{feed.path}?n=1&cursor0={text}"), 400, "bad-cursor")


def test_cursor_of_another_feed_or_partition_or_after_the_end_is_refused(feed4: Served) -> None:
    feed4.publish_ids(range(5), partition=0)
    other, mine = create(feed4.http, 4).read().cursors, feed4.read().cursors
    problem = problem_of(feed4.get(n=4, cursor0="_first", cursor1=other[1]), 400, "bad-cursor")
    assert problem["parameter"] == "cursor1"
    assert "another feed" in problem["reason"]
    problem = problem_of(feed4.get(n=4, cursor1=mine[2]), 400, "bad-cursor")
    assert (problem["parameter"], problem["partition"]) == ("cursor1", 2)
    *start, offset = mine[0].split("-")
    assert offset == "5"
    for beyond in (6, 10**17):
        problem = problem_of(feed4.get(n=4, cursor0="-".join([*start, str(beyond)])), 400, "bad-cursor")
        assert "after the end" in problem["reason"]
        assert "offset 5" in problem["reason"]


def test_cursor_of_a_recreated_feed_is_expired(feed4: Served) -> None:
    feed4.publish_ids(range(5), partition=0)
    cursor = feed4.read().cursors[0]
    feed4.drop()
    again = create(feed4.http, 4, feed4.name)
    again.publish_ids(range(100, 103), partition=0)
    problem = problem_of(again.get(n=4, cursor0=cursor), 410, "cursor-expired")
    named = {"parameter": "cursor0", "event_type": feed4.name, "partition": 0, "lost": None}
    assert {name: problem[name] for name in named} == named
    assert again.read(cursors={0: problem["first_available"]}).ids == [100, 101, 102]
    assert again.read(cursors={0: problem["last_available"]}).ids == []


@pytest.mark.parametrize("either_http", ["sqlite"], indirect=True)
def test_unknown_parameter_is_refused_if_it_begins_with_cursor(feed4: Served) -> None:
    """A mistyped cursor must not be read as none."""
    for name in ("cursor4", "cursor00", "cursor01", "cursor-1", "cursor", "cursorx", "cursor99999", "cursors"):
        problem = problem_of(feed4.get(n=4, cursor0="_first", **{name: "_first"}), 400, "bad-parameter")
        assert problem["parameter"] == name
        assert "cursor0 to cursor3" in problem["allowed"]
    feed4.publish_ids([1], partition=0)
    assert feed4.read(foo="bar", Cursor0="x", N="9", _="1").ids == [1]


def test_malformed_missing_or_repeated_parameter_is_named_with_its_legal_values(feed: Served) -> None:
    for name, values in (
        ("pagesizehint", ("many", "-1", "1e3")),
        ("wait", ("soon", "-1", "nan", "inf", "1e400", "1_0", " ", "1s")),
        ("store_cursor", ("2",)),
        ("event_types", ("", ";")),
        ("skip_event_types", (" ; ",)),
    ):
        for value in values:
            problem = problem_of(feed.get(n=1, cursor0="_first", **{name: value}), 400, "bad-parameter")
            assert problem["parameter"] == name.replace("_types", "-types").replace("skip_", "skip-")
            assert problem["value"] == value
            assert problem["allowed"]
    assert problem_of(feed.get(n=1), 400, "bad-parameter")["parameter"] == "cursor0"
    for twice in ("n=1&n=1&cursor0=_first", "n=1&cursor0=_first&cursor0=_first", "n=1&cursor0=_first&wait=1&wait=2"):
        assert problem_of(feed.http.get(f"{feed.path}?{twice}"), 400, "bad-parameter")["allowed"] == "one value"


def test_unknown_feed_is_answered_404(http: httpx2.Client) -> None:
    for path in ("nowhere?n=1&cursor0=_first", "nowhere", "a%00b?n=1&cursor0=_first", "%FF"):
        assert "hint" in problem_of(http.get(f"/feeds/{path}"), 404, "event-type-not-found")
