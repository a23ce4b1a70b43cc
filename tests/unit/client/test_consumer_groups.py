"""Consumer groups as a client lists, commits, resets and forgets them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.client.groups import ConsumerGroups
from penstock.wire.groups import CommittedPosition, ConsumerGroup, NewPosition, PositionReset, ResetPosition
from penstock.wire.http import Exchange
from tests.unit.client.answers import answer, body_of
from tests.unit.wire.script import Script

STORED = {"event_type": "a", "slice": "", "partition": 0, "epoch": 1, "offset": 7}
RESET = STORED | {"came_from": None, "head": 9, "gap": 2}
DONE = {"id": 3, "at": "now", "kind": "reset", "event_type": "a", "slice": "", "partition": 0, "epoch": 1}
DONE |= {"came_from": 7, "went_to": 0, "reason": "why"}
AT = NewPosition("a", 0, 7)


def groups(script: Script, retry_timeout: float = 30.0) -> ConsumerGroups:
    return ConsumerGroups("http://s/", retry_timeout=retry_timeout, clock=script.clock)


def group(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "kind": "spark", "event_types": ["a"], "gap": 7, "lag_seconds": 0.5} | members


def reset(known: ConsumerGroups, items: Any = None, **options: Any) -> Exchange[list[ResetPosition]]:
    return known.reset("g", items, **{"to": None, "reason": None, "dry_run": False} | options)


def test_list_asks_for_all_pages() -> None:
    subscription: Any = {"kind": "subscription", "gap": None, "lag_seconds": None, "consumer_group": "x"}
    script = Script(
        answer({"items": [group("a"), group("b&c")], "_links": {"next": {"href": "/somewhere"}}}),
        answer({"items": [group("d", **subscription)]}),
    )

    found = script.play(groups(script).all("order placed", "spark"))

    assert [each.name for each in found] == ["a", "b&c", "d"]
    assert found[2] == ConsumerGroup(name="d", event_types=["a"], **subscription)
    assert script.urls == [
        "/groups?event_type=order+placed&kind=spark&limit=1000",
        "/groups?event_type=order+placed&kind=spark&limit=1000&after=b%26c",
    ]


def test_commit_sends_only_the_members_that_are_given() -> None:
    script = Script(answer({"items": [STORED]}), answer({"items": []}))
    known = groups(script)
    positions = [NewPosition("a", 0, 7, expected=None), NewPosition("a", 1, 8, "s", 4)]

    assert script.play(known.commit("g", positions, None)) == [CommittedPosition("a", "", 0, 1, 7)]
    assert (script.requests[0].method, script.urls[0]) == ("POST", "/groups/g/positions")
    assert body_of(script) == {
        "items": [
            {"event_type": "a", "partition": 0, "offset": 7, "expected": None},
            {"event_type": "a", "partition": 1, "offset": 8, "slice": "s", "epoch": 4},
        ]
    }
    script.play(known.commit("g", iter([AT]), "processor"))
    assert body_of(script) == {"items": [{"event_type": "a", "partition": 0, "offset": 7}], "kind": "processor"}


TIME = datetime(2026, 11, 20, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("to", "text"),
    [("earliest", "earliest"), (TIME, "2026-11-20T10:00:00+00:00"), (timedelta(hours=1), "3600 seconds")],
    ids=["word", "time", "duration"],
)
def test_reset_moves_all_positions_or_the_given_ones(to: Any, text: str) -> None:
    script = Script(answer({"items": [RESET], "dry_run": True}), answer({"items": []}))
    known = groups(script)

    assert script.play(reset(known, to=to, dry_run=True)) == [ResetPosition("a", "", 0, 1, None, 7, 9, 2)]
    assert script.requests[0].method == "PATCH"
    assert body_of(script) == {"to": text, "dry_run": True}

    script.play(reset(known, [PositionReset("a", to="earliest"), PositionReset("a", 0, "", offset=0)], reason="why"))
    assert body_of(script) == {
        "items": [
            {"event_type": "a", "to": "earliest"},
            {"event_type": "a", "partition": 0, "slice": "", "offset": 0},
        ],
        "reason": "why",
        "dry_run": False,
    }


def test_history_asks_for_as_many_pages_as_the_limit_needs() -> None:
    pages = [
        {"items": [DONE | {"id": 9}, DONE | {"id": 8}], "_links": {"next": {"href": "/x"}}},
        {"items": [DONE | {"id": 5}], "_links": {}},
    ]
    script = Script(*map(answer, pages), *map(answer, pages))
    known = groups(script)

    assert [each.id for each in script.play(known.history("g", None))] == [9, 8, 5]
    assert [each.id for each in script.play(known.history("g", 2))] == [9, 8]
    assert script.urls == [
        "/groups/g/history?limit=1000",
        "/groups/g/history?limit=1000&after=8",
        "/groups/g/history?limit=2",
    ]
