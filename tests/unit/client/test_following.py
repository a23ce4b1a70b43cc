"""Following a feed without I/O: pages, pauses, errors, splits of partitions, and cursor sets."""

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.client.log.following import FollowProtocol
from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark
from penstock.core.log.start import Start
from penstock.errors import ConnectionLost, CursorExpired, ServerError, Unreachable
from penstock.wire.log.reader.protocol import ReadParameters
from tests.unit.wire.reader.test_protocol import V1, data, discovery, page, protocol
from tests.unit.wire.script import PROBLEM, Reply, Script, problem

LOST = ConnectionLost(url="u", reason="reset")
AWAY = Unreachable(url="u", reason="refused")


def follow(
    script: Script, cursors: dict[int, str] | None = None, *, pages: int | None = None, chosen: set[int] | None = None,
    start: Start = "earliest", parameters: ReadParameters | None = None, **options: Any,
) -> None:  # fmt: skip
    known, parameters = protocol(script, **options), parameters or ReadParameters(wait_seconds=10)
    following = FollowProtocol(
        known, cursors or {}, chosen=chosen, start=start, parameters=parameters, poll_interval=1.0
    )
    script.play(following.run(), pages=pages)


def event(partition: int, number: int) -> Reply:
    return page(
        {"partition": partition, "data": {"n": number}}, {"partition": partition, "cursor": f"{partition}-{number}"}
    )


def test_each_page_is_read_from_the_given_cursors_or_those_of_the_last() -> None:
    script = Script(event(0, 1), event(1, 2), event(0, 3))

    follow(script, pages=3, chosen={0, 1}, **V1)

    assert [data(each) for each in script.pages] == [[{"n": 1}], [{"n": 2}], [{"n": 3}]]
    cursors = [{0: "0-1", 1: "_first"}, {0: "0-1", 1: "1-2"}, {0: "0-3", 1: "1-2"}]
    assert [each.cursors for each in script.pages] == cursors
    assert [each.since for each in script.pages][1:] == cursors[:-1]
    assert script.urls[-1] == "/feed?n=4&cursor0=0-1&cursor1=1-2&wait=10"
    assert script.pauses == []

    script = Script(event(2, 1))

    follow(script, {2: "x", 3: "y", 0: "of another worker"}, pages=1, chosen={2, 3}, start="latest", **V1)

    assert script.urls == ["/feed?n=4&cursor2=x&cursor3=y&wait=10"]


def test_server_that_does_not_wait_is_asked_at_intervals() -> None:
    script = Script(page(), page(seconds=0.25), page(seconds=1.5), event(0, 1))

    follow(script, {0: "x"}, pages=1, chosen={0}, **V1)

    assert script.seconds == [1.0, 0.75, 0.0]


def test_moved_cursor_without_events_is_handed_on_after_a_short_pause() -> None:
    moved = page({"partition": 0, "cursor": "y"})
    script = Script(moved, page({"partition": 0, "cursor": "z"}, seconds=0.3), event(0, 1))

    follow(script, {0: "x"}, pages=3, chosen={0}, **V1)

    assert [each.cursors for each in script.pages] == [{0: "y"}, {0: "z"}, {0: "0-1"}]
    assert script.seconds == [pytest.approx(0.1), 0.0]


def test_following_survives_every_temporary_failure() -> None:
    broken = page({"partition": 0, "data": {"n": 1}})
    broken.lost = LOST
    failures = [AWAY, LOST, broken, Reply(500, b"oops"), Reply(429, b""), problem(503, "database-unavailable")]
    script = Script(*failures, event(0, 1))

    follow(script, {0: "x"}, pages=1, chosen={0}, **V1)

    assert data(script.pages[0]) == [{"n": 1}]
    assert [pause.because for pause in script.pauses][:2] == [AWAY, LOST]
    assert len(script.pauses) == len(failures)
    assert script.seconds[-1] > script.seconds[0]


def test_retry_delay_starts_anew_after_a_success_and_is_at_least_retry_after() -> None:
    busy = Reply(503, b"", {"retry-after": "42"})
    script = Script(*[AWAY] * 8, event(0, 1), AWAY, event(0, 2), busy, event(0, 3))

    follow(script, {0: "x"}, pages=3, chosen={0}, **V1)

    assert script.seconds[7] > 5
    assert script.seconds[8] <= 0.1
    assert 42 <= script.seconds[9] < 43


def test_discovery_is_retried_until_the_feed_answers() -> None:
    script = Script(AWAY, discovery("t", "0"), page({"data": {"n": 1}}, {"cursor": "a"}))

    follow(script, pages=1)

    assert script.pages[0].cursors == {0: "a"}


@pytest.mark.parametrize(
    ("reply", "kind"), [(problem(410, "cursor-expired", lost=3), CursorExpired), (Reply(404, b"?"), ServerError)]
)
def test_permanent_error_ends_the_following(reply: Reply, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        follow(Script(event(0, 1), reply), {0: "x"}, pages=9, chosen={0}, **V1)


def test_child_partitions_follow_their_closed_parent_and_new_roots_are_added() -> None:
    split = [{"id": "0", "closed": True}, {"id": "1", "startsAfterPartition": "0"}, "5"]
    script = Script(
        discovery("old", "0"),
        page({"data": {"n": 1}}, {"cursor": "a"}),
        Reply(409),
        discovery("new", *split),
        page({"data": {"n": 2}}, {"cursor": "b"}),
        page({"data": {"n": 3}}, {"cursor": "c"}),
        page({"cursor": "b"}),
        page({"cursor": "c"}),
        page({"data": {"n": 4}}, {"cursor": "d"}),
    )

    follow(script, pages=4)

    assert [data(each) for each in script.pages] == [[{"n": n}] for n in (1, 2, 3, 4)]
    assert script.pages[1].cursors == {0: "b", 1: "_first", 5: "_first"}
    assert "partition=5" in script.urls[-1] or "partition=1" in script.urls[-1]


def test_feed_of_closed_partitions_is_asked_for_new_ones() -> None:
    closed = {"id": "0", "closed": True}
    script = Script(
        discovery("t", closed),
        page({"cursor": "x"}),
        discovery("t", closed),
        discovery("t2", closed, {"id": "1", "startsAfterPartition": "0"}),
        page({"data": {"n": 1}}, {"cursor": "y"}),
    )

    follow(script, {0: "x"}, pages=1)

    assert script.pages[0].cursors == {0: "x", 1: "y"}
    assert script.now > 1010


def test_cursor_set_resumes_from_the_servers_cursors() -> None:
    script = Script(
        page({"partition": 0, "data": {"n": 1}}, {"partition": 0, "cursor": "b"}),
        page({"partition": 0, "data": {"n": 2}}, {"partition": 0, "cursor": "c"}),
    )

    follow(script, pages=2, parameters=ReadParameters(cursor_set="me", wait_seconds=10), version=1, partition_count=1)

    assert [data(each) for each in script.pages] == [[{"n": 1}], [{"n": 2}]]
    assert script.urls == ["/feed?n=1&cursorset=me&resume=0", "/feed?n=1&cursor0=b&cursorset=me&wait=10"]


@pytest.mark.parametrize(
    "unknown",
    [
        problem(404, "cursor-set-not-found"),
        Reply(404, b"nothing under that name"),
        Reply(404, b'{"title": "Not Found", "status": 404, "detail": "nothing is stored"}', PROBLEM),
    ],
    ids=["ours", "another server", "without a code"],
)
def test_unknown_cursor_set_begins_at_the_start(unknown: Reply) -> None:
    script = Script(unknown, page({"partition": 0, "cursor": "c"}))

    parameters = ReadParameters(cursor_set="me", wait_seconds=10)
    follow(script, pages=1, start="latest", parameters=parameters, version=1, partition_count=1)

    assert script.urls[-1] == "/feed?n=1&cursor0=_last&cursorset=me"


def test_feed_of_a_hub_is_followed_from_a_time_that_is_found_once() -> None:
    found = Reply(200, b'[{"partition": "0", "offset": "001-0002-000000000000000006"}]')
    script = Script(found, LOST, event(0, 1))

    time = datetime(2026, 11, 20, 10, tzinfo=UTC)
    follow(script, pages=1, start=time, version=1, partition_count=1, url="http://s/feeds/a")

    cursor = FeedCursor(feed_mark("a"), 2, FeedView(1, 0, 1), (7,)).encode()
    asked = "/event-types/a/cursors?at=2026-11-20T10%3A00%3A00%2B00%3A00"
    assert script.urls == [asked, *[f"/feeds/a?n=1&cursor0={cursor}&wait=10"] * 2]


def test_last_becomes_a_cursor_before_the_first_wait() -> None:
    script = Script(page({"partition": 0, "cursor": "c"}), LOST, event(0, 1))

    follow(script, pages=2, start="latest", version=1, partition_count=1)

    assert [each.cursors for each in script.pages] == [{0: "c"}, {0: "0-1"}]
    assert script.urls == ["/feed?n=1&cursor0=_last", *["/feed?n=1&cursor0=c&wait=10"] * 2]
