from typing import Any

import msgspec
import pytest

from penstock.core.position import Commit, Goal, Reset
from penstock.errors import BadParameter
from penstock.wire.groups import ConsumerGroup, parse_after, parse_commit, parse_kind, parse_reset
from penstock.wire.query import Query


def test_a_commit_says_whether_it_expects_something() -> None:
    place = {"event_type": "order.placed", "partition": 3, "offset": 7}
    items = [place, place | {"expected": None}, place | {"expected": 0, "slice": "2/1", "epoch": 4}]

    found = parse_commit({"kind": "spark", "items": items})

    assert found.kind == "spark"
    assert found.commits == [
        Commit("order.placed", 3, 7),
        Commit("order.placed", 3, 7, compares=True),
        Commit("order.placed", 3, 7, "2/1", 4, compares=True, expected=0),
    ]


def test_a_reset_is_of_all_or_of_what_it_names() -> None:
    everything = parse_reset({"at": "2026-11-20T10:00:00.000001+01:00", "dry_run": True})
    items = [
        {"event_type": "a", "to": "begin"},
        {"event_type": "b", "partition": 0, "slice": "", "offset": 0},
        {"event_type": "c", "partition": 1, "at": "1970-01-01T00:00:00Z"},
    ]
    named = parse_reset({"items": items, "reason": "größer"})

    assert everything == ([Reset(Goal(at=1_795_165_200_000_001))], None, True)
    assert named == (
        [Reset(Goal("begin"), "a"), Reset(Goal(offset=0), "b", 0, ""), Reset(Goal(at=0), "c", 1)],
        "größer",
        False,
    )


@pytest.mark.parametrize("given", [None, 7, [], {"to": "end", "offset": 7}, {"items": {}}, {"dry_run": 1, "to": "end"}])
def test_a_body_that_is_not_understood_says_what_there_is(given: Any) -> None:
    with pytest.raises(BadParameter) as told:
        parse_reset(given)

    assert "dry_run" in told.value.fields["allowed"]


def test_a_list_is_asked_for_by_kind_and_from_a_name_on() -> None:
    assert (parse_kind(Query(b"")), parse_after(Query(b""))) == (None, "")
    assert (parse_kind(Query(b"kind=spark")), parse_after(Query(b"after=a%2Fb"))) == ("spark", "a/b")
    with pytest.raises(BadParameter, match="cursorset, subscription, processor, spark"):
        parse_kind(Query(b"kind=Spark"))
    with pytest.raises(BadParameter):
        parse_after(Query(b"after=gr%C3%BCn"))


def test_only_a_subscription_shows_whose_it_is() -> None:
    group = ConsumerGroup(name="a", kind="b", event_types=[], gap=None, lag_seconds=None)

    assert msgspec.to_builtins(group) == {"name": "a", "kind": "b", "event_types": [], "gap": None, "lag_seconds": None}
    assert "consumer_group" in msgspec.to_builtins(msgspec.structs.replace(group, consumer_group="default"))


def test_a_group_with_more_than_is_known_here_is_understood() -> None:
    given = b'{"name":"a","kind":"b","event_types":["c"],"gap":7,"lag_seconds":1,"mood":"good"}'

    assert msgspec.json.decode(given, type=ConsumerGroup) == ConsumerGroup(
        name="a", kind="b", event_types=["c"], gap=7, lag_seconds=1
    )
