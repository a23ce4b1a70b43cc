import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.client.event_types import EventTypes
from penstock.client.subscription import SubscriptionCursor
from penstock.client.subscription_protocol import RESET_S, SubscriptionProtocol
from penstock.errors import (
    ConnectionLost,
    MalformedAnswer,
    ParkedNotFound,
    StreamsInTheWay,
    SubscriptionNotFound,
    WrongAddress,
)
from penstock.wire.exchange import Exchange
from penstock.wire.groups import PositionReset, ResetPosition
from tests.unit.client.test_subscription import SHOWN
from tests.unit.wire.script import Reply, Script, problem

LOST = ConnectionLost(url="http://s", reason="it broke")
PARKED = {"id": "7", "event_type": "a", "partition": "0", "key": "k", "attempts": 3, "parked_at": "then"}
PARKED |= {"state": "parked", "events": 1, "first_offset": "4", "last_offset": "4"}
Way = Callable[[SubscriptionProtocol], Exchange[Any]]


def subscriptions(script: Script) -> SubscriptionProtocol:
    event_types = EventTypes("http://s/", patience=30.0, clock=script.clock)
    return SubscriptionProtocol("http://s/", event_types, patience=30.0, clock=script.clock)


def shown(value: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode())


def cursor(partition: int, last: str, event_type: str = "a") -> dict[str, str]:
    return {"event_type": event_type, "partition": str(partition), "offset": f"001-0001-{last}", "cursor_token": "x"}


def ends(oldest: int, newest: int) -> Reply:
    row = {"oldest_available_offset": f"001-0001-{oldest:018}", "newest_available_offset": f"001-0001-{newest:018}"}
    return shown([{"partition": "0", **row}])


def asked(script: Script) -> list[str]:
    return [f"{request.method} {url}" for request, url in zip(script.requests, script.urls, strict=True)]


def body_of(script: Script) -> Any:
    return json.loads(script.requests[-1].body or b"")


@pytest.mark.parametrize(("status", "created"), [(201, True), (200, False)], ids=["created", "there already"])
def test_a_subscription_is_made_or_found(status: int, created: bool) -> None:
    script = Script(shown(SHOWN, status))
    members = {"owning_application": "shop", "consumer_group": None, "annotations": {"team": "x"}}

    found, is_new = script.play(subscriptions(script).create(iter(["a"]), (), members))

    assert (found.id, is_new) == ("5", created)
    assert asked(script) == ["POST /subscriptions"]
    assert body_of(script) == {"owning_application": "shop", "event_types": ["a"], "annotations": {"team": "x"}}


@pytest.mark.parametrize("read_from", [None, "begin"], ids=str)
def test_cursors_mean_that_it_begins_there_unless_something_else_is_said(read_from: str | None) -> None:
    script = Script(shown(SHOWN, 201))
    members = {"owning_application": "shop", "read_from": read_from}

    script.play(subscriptions(script).create(["a"], iter([SubscriptionCursor("a", 0, 1, 42)]), members))

    assert body_of(script)["read_from"] == (read_from or "cursors")
    assert body_of(script)["initial_cursors"] == [
        {"event_type": "a", "partition": "0", "offset": "001-0001-000000000000000041"}
    ]


def test_all_pages_are_asked_for_and_the_newest_comes_first() -> None:
    older = SHOWN | {"id": "9", "created_at": "2025-01-01T00:00:00.000Z"}
    script = Script(
        shown({"items": [older], "_links": {"next": {"href": "/elsewhere"}}}), shown({"items": [SHOWN], "_links": {}})
    )

    found = script.play(subscriptions(script).all("shop", ["a b", "c"], "service:x", status=True))

    assert [each.id for each in found] == ["5", "9"]
    wanted = "event_type=a+b&event_type=c&owning_application=shop&reader=service%3Ax&show_status=true&limit=1000"
    assert script.urls == [f"/subscriptions?{wanted}&token=new", f"/subscriptions?{wanted}&token=9"]


def test_a_page_without_anything_is_the_last() -> None:
    script = Script(shown({"items": [], "_links": {"next": {"href": "/subscriptions"}}}))

    assert script.play(subscriptions(script).all(None, [], None, status=False)) == []
    assert script.urls == ["/subscriptions?limit=1000&token=new"]


def test_what_is_not_said_stays_as_it_is() -> None:
    script = Script(shown(SHOWN | {"status": []}), Reply(204))

    script.play(subscriptions(script).update("5", {"labels": {"a": "b"}, "annotations": None}))

    assert asked(script) == ["GET /subscriptions/5", "PUT /subscriptions/5"]
    hubs_own = ("id", "created_at", "updated_at")
    assert body_of(script) == {name: each for name, each in SHOWN.items() if name not in hubs_own} | {
        "labels": {"a": "b"}
    }


def test_stats_say_who_has_what_and_how_far_behind_it_is() -> None:
    row = {"partition": "0", "state": "assigned", "stream_id": "s", "assignment_type": "auto"}
    row |= {"unconsumed_events": 7, "consumer_lag_seconds": 3, "parked_events": 2}  # type: ignore[dict-item]
    script = Script(*[shown({"items": [{"event_type": "a", "partitions": [row]}]})] * 2)

    [found] = script.play(subscriptions(script).stats("5", lag=True))
    script.play(subscriptions(script).stats("5", lag=False))

    assert (found.state, found.stream_id) == ("assigned", "s")
    assert (found.unconsumed_events, found.lag_seconds, found.parked_events) == (7, 3, 2)
    assert script.urls == [f"/subscriptions/5/stats?show_time_lag={lag}" for lag in ("true", "false")]


def test_a_reset_asks_where_everything_is_and_says_where_it_is_to_be() -> None:
    script = Script(
        shown(SHOWN | {"event_types": ["a", "b"]}), ends(3, 41), shown({"items": [cursor(0, "000000000000000009")]}),
        Reply(204),
    )  # fmt: skip
    known = subscriptions(script)

    found = script.play(
        known.reset("5", [PositionReset("a", 0, offset=7)], to=None, at=None, reason="why", dry_run=False)
    )

    assert found == [ResetPosition("a", "", 0, 1, 10, 7, 42, 35)]
    assert asked(script) == [
        "GET /subscriptions/5",
        "GET /event-types/a/partitions",
        "GET /subscriptions/5/cursors",
        "PATCH /subscriptions/5/cursors",
    ]
    moved = {"event_type": "a", "partition": "0", "offset": "001-0001-000000000000000006"}
    assert body_of(script) == {"items": [moved], "reason": "why"}
    assert script.requests[-1].wait == RESET_S


def test_a_dry_run_changes_nothing() -> None:
    script = Script(shown(SHOWN | {"event_types": ["a"]}), ends(0, 4), shown({"items": []}))

    found = script.play(subscriptions(script).reset("5", None, to="end", at=None, reason=None, dry_run=True))

    assert found == [ResetPosition("a", "", 0, 1, None, 5, 5, 0)]
    assert {request.method for request in script.requests} == {"GET"}


@pytest.mark.parametrize(
    ("offset", "position"), [("001-0001-000000000000000002", 3), ("BEGIN", 0)], ids=["an offset", "BEGIN"]
)
def test_where_a_time_begins_is_asked_of_the_feed(offset: str, position: int) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    script = Script(
        shown(SHOWN | {"event_types": ["a"]}), ends(0, 4), shown([{"partition": "0", "offset": offset}]),
        shown({"items": []}),
    )  # fmt: skip

    [found] = script.play(subscriptions(script).reset("5", None, to=None, at=at, reason=None, dry_run=True))

    assert found.offset == position
    assert script.urls[2] == "/event-types/a/cursors?at=2026-01-01T00%3A00%3A00%2B00%3A00"


def test_parked_keys_are_listed_shown_retried_and_skipped() -> None:
    details = PARKED | {"items": [{"offset": "4", "event": {"n": 1}}]}
    script = Script(shown({"items": [PARKED]}), shown(details), Reply(204), shown({"retried": 3}), Reply(204))
    known = subscriptions(script)

    assert [each.key for each in script.play(known.parked("5"))] == ["k"]
    assert script.play(known.parked_key("5", "7", 20)).items[0].event == {"n": 1}
    assert script.play(known.retry_parked("5", "7")) == 1
    assert script.play(known.retry_parked("5", None)) == 3
    script.play(known.skip_parked("5", "7", "obsolete"))

    assert asked(script) == [
        "GET /subscriptions/5/parked",
        "GET /subscriptions/5/parked/7?limit=20",
        "POST /subscriptions/5/parked/7/retry",
        "POST /subscriptions/5/parked/retry",
        "POST /subscriptions/5/parked/7/skip",
    ]
    assert body_of(script) == {"reason": "obsolete"}


@pytest.mark.parametrize(
    ("way", "requests"),
    [
        (lambda known: known.create(["a"], (), {"owning_application": "shop"}), 2),
        (lambda known: known.show("5"), 2),
        (lambda known: known.extend_lease("5", "s"), 2),
        (lambda known: known.delete("5"), 1),
        (lambda known: known.retry_parked("5", "7"), 1),
        (lambda known: known.retry_parked("5", None), 1),
        (lambda known: known.skip_parked("5", "7", "why"), 1),
    ],
    ids=["create", "show", "extend a lease", "delete", "retry", "retry all", "skip"],
)
def test_only_what_does_no_harm_twice_is_asked_again_when_the_answer_is_lost(way: Way, requests: int) -> None:
    script = Script(LOST, problem(404, "subscription-not-found", subscription="5"))

    with pytest.raises((ConnectionLost, SubscriptionNotFound)):
        script.play(way(subscriptions(script)))
    assert len(script.requests) == requests


def test_a_reset_that_streams_stand_in_the_way_of_is_tried_again() -> None:
    stuck = problem(503, "streams-in-the-way", subscription="5", streams=1, retry_after=1)
    script = Script(shown(SHOWN | {"event_types": ["a"]}), ends(0, 4), shown({"items": []}), stuck, Reply(204))

    script.play(subscriptions(script).reset("5", None, to="end", at=None, reason=None, dry_run=False))

    assert [request.method for request in script.requests][-2:] == ["PATCH", "PATCH"]
    assert isinstance(script.pauses[0].because, StreamsInTheWay)


@pytest.mark.parametrize("id", ["", ".", ".."], ids=repr)
def test_an_id_that_would_be_another_path_is_not_asked_for(id: str) -> None:
    script = Script()
    known = subscriptions(script)

    for way in (known.show(id), known.delete(id), known.stats(id, lag=True), known.parked(id)):
        with pytest.raises(SubscriptionNotFound):
            script.play(way)
    assert script.requests == []


@pytest.mark.parametrize("parked_id", ["", "..", "7/x", "²"], ids=repr)
def test_a_parked_id_that_is_no_number_is_not_asked_for(parked_id: str) -> None:
    script = Script()

    with pytest.raises(ParkedNotFound):
        script.play(subscriptions(script).skip_parked("5", parked_id, "why"))
    assert script.requests == []


@pytest.mark.parametrize(
    ("way", "answer"),
    [
        (lambda known: known.show("5"), {"hello": "world"}),
        (lambda known: known.all(None, [], None, status=False), {"items": [{"id": "5"}]}),
        (lambda known: known.cursors("5"), {"items": [{"event_type": "a", "partition": "0", "offset": "seven"}]}),
        (lambda known: known.cursors("5"), {"items": [cursor(0, "--1") | {"partition": "first"}]}),
        (lambda known: known.parked("5"), {"items": [PARKED | {"first_offset": "x"}]}),
    ],
    ids=["show", "all", "an offset", "a partition", "a parked key"],
)
def test_an_answer_of_another_shape_is_refused(way: Way, answer: Any) -> None:
    script = Script(shown(answer))

    with pytest.raises(MalformedAnswer):
        script.play(way(subscriptions(script)))


def test_a_page_for_a_browser_is_refused() -> None:
    script = Script(Reply(200, b"<html>"))

    with pytest.raises(WrongAddress):
        script.play(subscriptions(script).show("5"))
