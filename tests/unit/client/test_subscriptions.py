from typing import Any, NamedTuple

import pytest

from penstock.client.client import Client
from penstock.client.subscriptions import Subscriptions
from tests.unit.client.handler import Handlers, json
from tests.unit.client.test_subscription import SHOWN
from tests.unit.client.test_subscription_protocol import PARKED

STATS = {"items": [{"event_type": "a", "partitions": [{"partition": "0", "state": "unassigned", "stream_id": ""}]}]}
ENDS = [
    {
        "partition": "0",
        "oldest_available_offset": "001-0001-000000000000000000",
        "newest_available_offset": "001-0001-000000000000000004",
    }
]
CURSORS = {"items": [{"event_type": "a", "partition": "0", "offset": "001-0001--1"}]}
OF_A = SHOWN | {"event_types": ["a"]}


class Call(NamedTuple):
    """A call, and what is to come of it."""

    name: str
    given: tuple[Any, ...]
    options: dict[str, Any]
    answers: list[tuple[Any, int]]
    asked: list[str]
    """What the hub is asked."""
    comes_to: str
    """A part of what is returned."""


CALLS = [
    Call("create", ("shop", ["a"]), {"consumer_group": "x", "read_from": "begin", "annotations": {"a": "b"}},
         [(SHOWN, 201)], ["POST /subscriptions"], "True)"),
    Call("all", (), {"owning_application": "shop", "event_types": ["a"], "reader": "service:x"},
         [({"items": [SHOWN]}, 200)],
         ["GET /subscriptions?event_type=a&owning_application=shop&reader=service%3Ax&limit=1000&token=new"], "id='5'"),
    Call("show", ("5",), {}, [(SHOWN, 200)], ["GET /subscriptions/5"], "id='5'"),
    Call("update", ("5",), {"labels": {"a": "b"}}, [(SHOWN, 200), ({}, 204)],
         ["GET /subscriptions/5", "PUT /subscriptions/5"], "None"),
    Call("delete", ("5",), {}, [({}, 204)], ["DELETE /subscriptions/5"], "None"),
    Call("stats", ("5",), {}, [(STATS, 200)], ["GET /subscriptions/5/stats?show_time_lag=true"], "'unassigned'"),
    Call("stats", ("5",), {"lag": False}, [(STATS, 200)], ["GET /subscriptions/5/stats?show_time_lag=false"], "=0"),
    Call("cursors", ("5",), {}, [(CURSORS, 200)], ["GET /subscriptions/5/cursors"], "offset=0"),
    Call("reset", ("5",), {"to": "end", "reason": "why"}, [(OF_A, 200), (ENDS, 200), (CURSORS, 200), ({}, 204)],
         ["GET /subscriptions/5", "GET /event-types/a/partitions", "GET /subscriptions/5/cursors",
          "PATCH /subscriptions/5/cursors"], "came_from=0, offset=5"),
    Call("parked", ("5",), {}, [({"items": [PARKED]}, 200)], ["GET /subscriptions/5/parked"], "key='k'"),
    Call("parked_key", ("5", "7"), {"limit": 3}, [(PARKED, 200)], ["GET /subscriptions/5/parked/7?limit=3"],
         "items=[]"),
    Call("retry_parked", ("5",), {}, [({"retried": 3}, 200)], ["POST /subscriptions/5/parked/retry"], "3"),
    Call("retry_parked", ("5", "7"), {}, [({}, 204)], ["POST /subscriptions/5/parked/7/retry"], "1"),
    Call("skip_parked", ("5", "7", "why"), {}, [({}, 204)], ["POST /subscriptions/5/parked/7/skip"], "None"),
    Call("extend_lease", ("5", "s"), {}, [({}, 204)], ["POST /subscriptions/5/streams/s/lease"], "None"),
]  # fmt: skip
IDS = [f"{call.name}: {call.asked[-1]}" for call in CALLS]


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_each_call_asks_what_it_is_for(call: Call) -> None:
    handlers = Handlers(*(json(value, status) for value, status in call.answers))

    found = getattr(Client("http://s", http=handlers.client()).subscriptions, call.name)(*call.given, **call.options)

    assert asked_of(handlers) == call.asked
    assert call.comes_to in repr(found)


def test_all_calls_are_tried_here() -> None:
    calls = {name for name in vars(Subscriptions) if not name.startswith("_")}

    assert calls == {call.name for call in CALLS}


def asked_of(handlers: Handlers) -> list[str]:
    """Return what a hub at http://s was asked."""
    return [f"{each.method} {str(each.url).removeprefix('http://s')}" for each in handlers.requests]
