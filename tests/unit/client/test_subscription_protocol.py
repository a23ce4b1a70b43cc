"""Subscriptions as a client creates, changes, resets and shows them: the requests, repetitions and refusals."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.client.registry import EventTypeProtocol
from penstock.client.subscriptions.model import SubscriptionCursor
from penstock.client.subscriptions.protocol import RESET_TIMEOUT, SubscriptionProtocol
from penstock.errors import BadParameter, MalformedAnswer
from penstock.wire.groups import PositionReset, ResetPosition
from penstock.wire.http import Exchange
from tests.failing import has_code
from tests.unit.client.answers import answer, body_of, requests
from tests.unit.client.test_subscription import SHOWN
from tests.unit.wire.script import Reply, Script, problem

PARKED = {"id": "7", "event_type": "a", "partition": "0", "key": "k", "attempts": 3, "parked_at": "then"}
PARKED |= {"state": "parked", "events": 1, "first_offset": "4", "last_offset": "4"}
Way = Callable[[SubscriptionProtocol], Exchange[Any]]


def subscriptions(script: Script) -> SubscriptionProtocol:
    event_types = EventTypeProtocol("http://s/", retry_timeout=30.0, clock=script.clock)
    return SubscriptionProtocol("http://s/", event_types, retry_timeout=30.0, clock=script.clock)


def cursor(partition: int, last: str, event_type: str = "a") -> dict[str, str]:
    return {"event_type": event_type, "partition": str(partition), "offset": f"001-0001-{last}", "cursor_token": "x"}


def ends(oldest: int, newest: int) -> Reply:
    row = {"oldest_available_offset": f"001-0001-{oldest:018}", "newest_available_offset": f"001-0001-{newest:018}"}
    return answer([{"partition": "0", **row}])


@pytest.mark.parametrize(("status", "created"), [(201, True), (200, False)], ids=["created", "there already"])
def test_create_returns_a_new_or_the_existing_subscription(status: int, created: bool) -> None:
    script = Script(answer(SHOWN, status))
    members = {"owning_application": "shop", "consumer_group": None, "annotations": {"team": "x"}}

    found, is_new = script.play(subscriptions(script).create(iter(["a"]), None, (), members))

    assert (found.id, is_new) == ("5", created)
    assert requests(script) == ["POST /subscriptions"]
    assert body_of(script) == {"owning_application": "shop", "event_types": ["a"], "annotations": {"team": "x"}}


CURSOR = {"event_type": "a", "partition": "0", "offset": "001-0001-000000000000000041"}


def test_create_with_cursors_reads_from_them() -> None:
    script = Script(answer(SHOWN, 201))

    cursors = iter([SubscriptionCursor("a", 0, 1, 42)])
    script.play(subscriptions(script).create(["a"], None, cursors, {"owning_application": "shop"}))

    assert (body_of(script)["read_from"], body_of(script)["initial_cursors"]) == ("cursors", [CURSOR])


@pytest.mark.parametrize(("start", "read_from"), [("earliest", "begin"), ("latest", "end")])
def test_create_sends_the_start_in_the_words_of_nakadi(start: Any, read_from: str) -> None:
    script = Script(answer(SHOWN, 201))

    script.play(subscriptions(script).create(["a"], start, (), {"owning_application": "shop"}))

    assert body_of(script) == {"owning_application": "shop", "event_types": ["a"], "read_from": read_from}


def test_create_at_a_time_or_a_duration_ago_asks_the_feed_for_its_cursors() -> None:
    found = answer([{"partition": "0", "offset": CURSOR["offset"]}])
    for start in (datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=1)):
        script = Script(found, answer(SHOWN, 201))

        script.play(subscriptions(script).create(["a"], start, (), {"owning_application": "shop"}))

        assert script.urls[0].startswith("/event-types/a/cursors?at=20")
        assert (body_of(script)["read_from"], body_of(script)["initial_cursors"]) == ("cursors", [CURSOR])


@pytest.mark.parametrize(
    ("start", "cursors", "allowed"),
    [("begin", (), "'earliest', 'latest', a datetime"), ("latest", [CURSOR], "nothing beside initial_cursors")],
    ids=["another word", "beside cursors"],
)
def test_create_refuses_a_start_that_is_none(start: Any, cursors: Any, allowed: str) -> None:
    script = Script()

    with pytest.raises(BadParameter, match=allowed):
        script.play(subscriptions(script).create(["a"], start, cursors, {}))


def test_list_asks_for_all_pages_up_to_an_empty_one_and_sorts_the_newest_first() -> None:
    older = SHOWN | {"id": "9", "created_at": "2025-01-01T00:00:00.000Z"}
    script = Script(
        answer({"items": [older], "_links": {"next": {"href": "/elsewhere"}}}), answer({"items": [SHOWN], "_links": {}})
    )

    found = script.play(subscriptions(script).all("shop", ["a b", "c"], "service:x", status=True))

    assert [each.id for each in found] == ["5", "9"]
    wanted = "event_type=a+b&event_type=c&owning_application=shop&reader=service%3Ax&show_status=true&limit=1000"
    assert script.urls == [f"/subscriptions?{wanted}&token=new", f"/subscriptions?{wanted}&token=9"]

    script = Script(answer({"items": [], "_links": {"next": {"href": "/subscriptions"}}}))

    assert script.play(subscriptions(script).all(None, [], None, status=False)) == []
    assert script.urls == ["/subscriptions?limit=1000&token=new"]


def test_update_keeps_the_members_that_are_not_given() -> None:
    script = Script(answer(SHOWN | {"status": []}), Reply(204))

    script.play(subscriptions(script).update("5", {"labels": {"a": "b"}, "annotations": None}))

    assert requests(script) == ["GET /subscriptions/5", "PUT /subscriptions/5"]
    hubs_own = ("id", "created_at", "updated_at")
    assert body_of(script) == {name: each for name, each in SHOWN.items() if name not in hubs_own} | {
        "labels": {"a": "b"}
    }


def test_stats_show_the_stream_and_the_lag_of_each_partition() -> None:
    row = {"partition": "0", "state": "assigned", "stream_id": "s", "assignment_type": "auto"}
    row |= {"unconsumed_events": 7, "consumer_lag_seconds": 3, "parked_events": 2}  # type: ignore[dict-item]
    script = Script(*[answer({"items": [{"event_type": "a", "partitions": [row]}]})] * 2)

    [found] = script.play(subscriptions(script).stats("5", lag=True))
    script.play(subscriptions(script).stats("5", lag=False))

    assert (found.state, found.stream_id) == ("assigned", "s")
    assert (found.unconsumed_events, found.lag_seconds, found.parked_events) == (7, 3, 2)
    assert script.urls == [f"/subscriptions/5/stats?show_time_lag={lag}" for lag in ("true", "false")]


def test_reset_reads_the_positions_and_sends_the_new_ones() -> None:
    script = Script(
        answer(SHOWN | {"event_types": ["a", "b"]}), ends(3, 41), answer({"items": [cursor(0, "000000000000000009")]}),
        Reply(204),
    )  # fmt: skip
    known = subscriptions(script)

    found = script.play(known.reset("5", [PositionReset("a", 0, offset=7)], to=None, reason="why", dry_run=False))

    assert found == [ResetPosition("a", "", 0, 1, 10, 7, 42, 35)]
    assert requests(script) == [
        "GET /subscriptions/5",
        "GET /event-types/a/partitions",
        "GET /subscriptions/5/cursors",
        "PATCH /subscriptions/5/cursors",
    ]
    moved = {"event_type": "a", "partition": "0", "offset": "001-0001-000000000000000006"}
    assert body_of(script) == {"items": [moved], "reason": "why"}
    assert script.requests[-1].wait_seconds == RESET_TIMEOUT


@pytest.mark.parametrize(
    ("offset", "position"), [("001-0001-000000000000000002", 3), ("001-0001--1", 0)], ids=["an offset", "the first"]
)
def test_dry_run_of_a_reset_to_a_time_asks_the_feed_for_its_offset_and_changes_nothing(
    offset: str, position: int
) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    script = Script(
        answer(SHOWN | {"event_types": ["a"]}), ends(0, 4), answer([{"partition": "0", "offset": offset}]),
        answer({"items": []}),
    )  # fmt: skip

    [found] = script.play(subscriptions(script).reset("5", None, to=at, reason=None, dry_run=True))

    assert found == ResetPosition("a", "", 0, 1, None, position, 5, 5 - position)
    assert {request.method for request in script.requests} == {"GET"}
    assert script.urls[2] == "/event-types/a/cursors?at=2026-01-01T00%3A00%3A00%2B00%3A00"


def test_parked_keys_are_retried_and_skipped() -> None:
    script = Script(Reply(204), answer({"retried": 3}), Reply(204))
    known = subscriptions(script)

    assert script.play(known.retry_parked("5", "7")) == 1
    assert script.play(known.retry_parked("5", None)) == 3
    script.play(known.skip_parked("5", "7", "obsolete"))
    assert body_of(script) == {"reason": "obsolete"}


def test_reset_is_retried_while_streams_are_in_the_way() -> None:
    stuck = problem(503, "streams-in-the-way", subscription="5", streams=1, retry_after=1)
    script = Script(answer(SHOWN | {"event_types": ["a"]}), ends(0, 4), answer({"items": []}), stuck, Reply(204))

    script.play(subscriptions(script).reset("5", None, to="latest", reason=None, dry_run=False))

    assert [request.method for request in script.requests][-2:] == ["PATCH", "PATCH"]
    assert has_code("streams-in-the-way")(script.pauses[0].because)


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (lambda known: known.show("5"), {"hello": "world"}),
        (lambda known: known.all(None, [], None, status=False), {"items": [{"id": "5"}]}),
        (lambda known: known.cursors("5"), {"items": [{"event_type": "a", "partition": "0", "offset": "seven"}]}),
        (lambda known: known.cursors("5"), {"items": [cursor(0, "--1") | {"partition": "first"}]}),
        (lambda known: known.parked("5"), {"items": [PARKED | {"first_offset": "x"}]}),
    ],
    ids=["show", "all", "an offset", "a partition", "a parked key"],
)
def test_answer_of_another_shape_is_refused(way: Way, value: Any) -> None:
    script = Script(answer(value))

    with pytest.raises(MalformedAnswer):
        script.play(way(subscriptions(script)))
