"""FeedAPI v2: pages of one partition."""

from itertools import pairwise

import pytest

from tests.served import NDJSON, Served, create, problem_of

ON_SQLITE = pytest.mark.parametrize("either_http", ["sqlite"], indirect=True)
"""For rules in which the database has no part."""


def test_page_is_events_and_a_last_line_with_a_cursor(feed4: Served) -> None:
    feed4.publish_lines({"data": {"id": p}, "partition": p} for p in range(3))
    assert [feed4.read_v2(partition=p).ids for p in range(4)] == [[0], [1], [2], []]
    event, last = feed4.read_v2(partition=1).lines
    assert (event, set(last)) == ({"data": {"id": 1}}, {"cursor"})
    [only] = feed4.read_v2(partition=3).lines
    assert set(only) == {"cursor"}
    assert feed4.read_v2(only["cursor"], 3).cursor == only["cursor"]


def test_cursor_continues_exactly_after_the_page_in_both_versions(feed4: Served) -> None:
    feed4.publish_ids(range(23), partition=2)
    seen: list[int] = []
    cursor, before = "_first", ""
    while cursor != before:
        page = feed4.read_v2(cursor, 2, pagesizehint=5)
        seen += page.ids
        before, cursor = cursor, page.cursor
    assert seen == list(range(23))
    assert feed4.read(cursors={2: feed4.read_v2(partition=2, pagesizehint=20).cursor}).ids == [20, 21, 22]
    assert feed4.read_v2(feed4.read(1, pagesizehint=22).cursor, 2).ids == [22]


def test_last_is_the_end_of_the_partition(feed4: Served) -> None:
    feed4.publish_ids([1], partition=0)
    cursor = feed4.read_v2("_last").cursor
    feed4.publish_ids([2], partition=0)
    assert feed4.read_v2(cursor).ids == [2]


def test_page_has_1000_events_by_default_and_none_for_a_hint_of_0(feed: Served) -> None:
    feed.publish_ids(range(1_100))
    assert len(feed.read_v2().ids) == 1_000
    assert len(feed.read_v2(pagesizehint=1_050).ids) == 1_050
    [only] = feed.read_v2(pagesizehint=0).lines
    assert feed.read_v2(only["cursor"]).ids[0] == 0


def test_page_is_lines_in_utf_8_with_headers_on_request(feed: Served) -> None:
    feed.post('{"data":{"name":"Æ🦑"},"headers":{"a":"1"}}\n'.encode())
    answer = feed.events()
    assert answer.headers["content-type"] == NDJSON
    assert answer.content.startswith('{"data":{"name":"Æ🦑"}}\n'.encode())
    assert feed.read_v2(headers="a").lines[0] == {"headers": {"a": "1"}, "data": {"name": "Æ🦑"}}
    assert feed.read_v2(headers="_all").lines[0]["headers"]["ce_type"] == feed.name


# until


def test_page_stops_at_until(feed4: Served) -> None:
    """An until at or before the cursor gives the cursor back."""
    feed4.publish_ids(range(10), partition=0)
    early, until, late = (feed4.read_v2(pagesizehint=hint).cursor for hint in (1, 7, 9))
    page = feed4.read_v2(until=until)
    assert (page.ids, page.cursor) == ([*range(7)], until)
    for cursor, end in ((until, until), (late, early)):
        page = feed4.read_v2(cursor, until=end, wait=55)
        assert (page.ids, page.cursor) == ([], cursor)
    assert feed4.read_v2(pagesizehint=3, until=until).ids == [0, 1, 2]
    assert feed4.read_v2(until="_first").ids == feed4.read_v2("_last", until="_last", wait=55).ids == []
    assert feed4.read_v2(until="_last").ids == [*range(10)]


def test_ranges_between_cursors_meet(feed4: Served) -> None:
    feed4.publish_ids(range(90), partition=0)
    bounds = ["_first"]
    for _ in range(3):
        bounds.append(feed4.read_v2(bounds[-1], pagesizehint=30).cursor)
    parts = [feed4.read_v2(a, until=b).ids for a, b in pairwise(bounds)]
    assert [number for part in parts for number in part] == list(range(90))


# Refusals


@ON_SQLITE
def test_unusable_cursor_is_named(feed4: Served) -> None:
    """Garbage, or a cursor of another feed, partition or version."""
    for name in ("cursor", "until"):
        for text in ("garbage", "", "é", "x" * 10_000):
            assert problem_of(feed4.events(**{name: text}), 400, "bad-cursor")["parameter"] == name
        other = create(feed4.http, 4)
        for cursor in (feed4.read_v2(partition=2).cursor, other.read_v2().cursor, feed4.read(8).cursors[0]):
            assert problem_of(feed4.events(**{name: cursor}), 400, "bad-cursor")["parameter"] == name


@ON_SQLITE
def test_unknown_partition_is_answered_404_and_malformed_one_400(feed4: Served) -> None:
    for partition in ("4", "32767"):
        assert problem_of(feed4.events(partition=partition), 404, "partition-not-found")["partition_count"] == 4
    for partition in ("-1", "x", "", "32768", "0.0", "0x1"):
        assert problem_of(feed4.events(partition=partition), 400, "bad-parameter")["parameter"] == "partition"


def test_missing_repeated_or_malformed_parameter_is_named(feed: Served) -> None:
    for missing in ("token", "partition", "cursor"):
        given = {"token": "1-1", "partition": "0", "cursor": "_first"}
        del given[missing]
        problem = problem_of(feed.get("/events", **given), 400, "bad-parameter")
        assert (problem["parameter"], problem["value"]) == (missing, None)
    twice = feed.http.get(f"{feed.path}/events?token=1-1&partition=0&cursor=_first&cursor=_last")
    assert problem_of(twice, 400, "bad-parameter")["parameter"] == "cursor"
    for wait in ("inf", "nan", "-1", "1s"):
        assert problem_of(feed.events(wait=wait), 400, "bad-parameter")["parameter"] == "wait"
    feed.publish_ids([1])
    assert feed.read_v2(cursor0="x", n=7, anything="").ids == [1]
