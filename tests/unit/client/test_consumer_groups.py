import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.client.consumer_groups import ConsumerGroups
from penstock.errors import (
    ConnectionLost,
    DatabaseUnavailable,
    GroupNotFound,
    MalformedAnswer,
    PenstockError,
    PositionMoved,
    WrongAddress,
)
from penstock.wire.exchange import Exchange
from penstock.wire.groups import CommittedPosition, ConsumerGroup, NewPosition, PositionReset, ResetPosition
from tests.unit.wire.script import Reply, Script, problem

STORED = {"event_type": "a", "slice": "", "partition": 0, "epoch": 1, "offset": 7}
RESET = STORED | {"came_from": None, "head": 9, "gap": 2}
POSITION = STORED | {"head": 9, "gap": 2, "lag_seconds": 1.5, "lost": 0, "reason": None, "updated_at": "now"}
DONE = {"id": 3, "at": "now", "kind": "reset", "event_type": "a", "slice": "", "partition": 0, "epoch": 1}
DONE |= {"came_from": 7, "went_to": 0, "reason": "why"}
AT = NewPosition("a", 0, 7)
LOST = ConnectionLost(url="http://s", reason="it broke")


def groups(script: Script, patience: float = 30.0) -> ConsumerGroups:
    return ConsumerGroups("http://s/", patience=patience, clock=script.clock)


def shown(value: Any) -> Reply:
    return Reply(200, json.dumps(value).encode())


def a_group(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "kind": "spark", "event_types": ["a"], "gap": 7, "lag_seconds": 0.5} | members


def body_of(script: Script) -> Any:
    return json.loads(script.requests[-1].body or b"")


def test_all_pages_of_groups_are_asked_for() -> None:
    script = Script(
        shown({"items": [a_group("a"), a_group("b&c")], "_links": {"next": {"href": "/somewhere"}}}),
        shown({"items": [a_group("d", kind="subscription", gap=None, lag_seconds=None, consumer_group="x")]}),
    )

    found = script.play(groups(script).all("order placed", "spark"))

    assert [each.name for each in found] == ["a", "b&c", "d"]
    assert found[2] == ConsumerGroup(
        name="d", kind="subscription", event_types=["a"], gap=None, lag_seconds=None, consumer_group="x"
    )
    assert script.urls == [
        "/groups?event_type=order+placed&kind=spark&limit=1000",
        "/groups?event_type=order+placed&kind=spark&limit=1000&after=b%26c",
    ]


def test_a_group_is_shown_with_its_positions() -> None:
    script = Script(shown(a_group("team/a b", positions=[POSITION])))

    found = script.play(groups(script).show("team/a b"))

    assert (found.gap, found.positions[0].head, found.positions[0].lag_seconds) == (7, 9, 1.5)
    assert script.urls == ["/groups/team%2Fa%20b"]


@pytest.mark.parametrize("name", ["", ".", ".."], ids=repr)
@pytest.mark.parametrize(
    "way",
    [
        lambda known, name: known.show(name),
        lambda known, name: known.commit(name, [AT], None),
        lambda known, name: known.history(name, None),
        lambda known, name: known.forget(name),
    ],
    ids=["show", "commit", "history", "forget"],
)
def test_a_name_that_would_be_another_path_is_not_asked_for(
    way: Callable[[ConsumerGroups, str], Exchange[Any]], name: str
) -> None:
    script = Script()
    with pytest.raises(GroupNotFound):
        script.play(way(groups(script), name))
    assert script.requests == []


def test_a_commit_says_no_more_than_it_was_given() -> None:
    script = Script(shown({"items": [STORED]}), shown({"items": []}))
    known = groups(script)

    stored = script.play(
        known.commit("g", [NewPosition("a", 0, 7, expected=None), NewPosition("a", 1, 8, "s", 4)], None)
    )
    assert stored == [CommittedPosition("a", "", 0, 1, 7)]
    assert (script.requests[0].method, script.urls[0]) == ("POST", "/groups/g/positions")
    assert body_of(script) == {
        "items": [
            {"event_type": "a", "partition": 0, "offset": 7, "expected": None},
            {"event_type": "a", "partition": 1, "offset": 8, "slice": "s", "epoch": 4},
        ]
    }
    script.play(known.commit("g", iter([AT]), "processor"))
    assert body_of(script) == {"items": [{"event_type": "a", "partition": 0, "offset": 7}], "kind": "processor"}


@pytest.mark.parametrize(
    ("position", "lost", "requests"),
    [
        (AT, LOST, 2),
        (NewPosition("a", 0, 7, expected=3), LOST, 1),
        (NewPosition("a", 0, 7, expected=3), problem(503, "database-unavailable", reason="away", retry_after=1), 2),
    ],
    ids=["blindly, after a broken connection", "compared, after a broken connection", "compared, after a refusal"],
)
def test_a_commit_is_repeated_only_where_that_does_no_harm(
    position: NewPosition, lost: PenstockError | Reply, requests: int
) -> None:
    script = Script(lost, shown({"items": [STORED]}))
    exchange = groups(script).commit("g", [position], None)

    if requests == 1:
        with pytest.raises(ConnectionLost):
            script.play(exchange)
    else:
        assert len(script.play(exchange)) == 1
    assert len(script.requests) == requests


def test_what_stands_there_instead_is_told() -> None:
    script = Script(problem(409, "position-moved", offset=9, epoch=1))

    with pytest.raises(PositionMoved) as told:
        script.play(groups(script).commit("g", [NewPosition("a", 0, 7, expected=3)], None))

    assert told.value.fields["offset"] == 9


@pytest.mark.parametrize(
    ("at", "sent"),
    [
        (datetime(2026, 11, 20, 10, tzinfo=UTC), "2026-11-20T10:00:00+00:00"),
        ("2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z"),
    ],
    ids=["a time", "a text"],
)
def test_a_reset_is_of_all_or_of_what_is_named(at: datetime | str, sent: str) -> None:
    script = Script(shown({"items": [RESET], "dry_run": True}), shown({"items": []}))
    known = groups(script)

    moved = script.play(known.reset("g", None, to=None, at=at, reason=None, dry_run=True))
    assert moved == [ResetPosition("a", "", 0, 1, None, 7, 9, 2)]
    assert (script.requests[0].method, body_of(script)) == ("PATCH", {"at": sent, "dry_run": True})

    items = [PositionReset("a", to="begin"), PositionReset("a", 0, "", offset=0)]
    script.play(known.reset("g", items, to=None, at=None, reason="why", dry_run=False))
    assert body_of(script) == {
        "items": [
            {"event_type": "a", "to": "begin"},
            {"event_type": "a", "partition": 0, "slice": "", "offset": 0},
        ],
        "reason": "why",
        "dry_run": False,
    }


@pytest.mark.parametrize(("dry_run", "requests"), [(True, 2), (False, 1)], ids=["dry run", "in earnest"])
def test_a_reset_in_earnest_is_not_sent_twice(*, dry_run: bool, requests: int) -> None:
    script = Script(LOST, shown({"items": [], "dry_run": dry_run}))
    exchange = groups(script).reset("g", None, to="end", at=None, reason=None, dry_run=dry_run)

    if dry_run:
        assert script.play(exchange) == []
    else:
        with pytest.raises(ConnectionLost):
            script.play(exchange)
    assert len(script.requests) == requests


def test_history_is_asked_for_as_far_as_it_is_wanted() -> None:
    pages = [
        {"items": [DONE | {"id": 9}, DONE | {"id": 8}], "_links": {"next": {"href": "/x"}}},
        {"items": [DONE | {"id": 5}], "_links": {}},
    ]
    script = Script(*map(shown, pages), *map(shown, pages))
    known = groups(script)

    assert [each.id for each in script.play(known.history("g", None))] == [9, 8, 5]
    assert [each.id for each in script.play(known.history("g", 2))] == [9, 8]
    assert script.urls == [
        "/groups/g/history?limit=1000",
        "/groups/g/history?limit=1000&after=8",
        "/groups/g/history?limit=2",
    ]


def test_a_group_is_forgotten() -> None:
    script = Script(Reply(204), problem(404, "group-not-found", group="g"))
    known = groups(script)

    script.play(known.forget("g"))
    with pytest.raises(GroupNotFound):
        script.play(known.forget("g"))

    assert (script.requests[0].method, script.urls[0]) == ("DELETE", "/groups/g")


def test_what_is_no_answer_of_a_hub_is_told() -> None:
    away = problem(503, "database-unavailable", reason="away", retry_after=1)
    script = Script(shown({"groups": []}), Reply(200, b"<html>"), away)
    known = groups(script, patience=0)

    with pytest.raises(MalformedAnswer):
        script.play(known.all(None, None))
    with pytest.raises(WrongAddress):
        script.play(known.all(None, None))
    with pytest.raises(DatabaseUnavailable):
        script.play(known.all(None, None))
