"""What is no valid event is set apart; the others stay as they are."""

from penstock.core.event import NewEvent
from penstock.hub.publish import Handed
from penstock.hub.sifting import Reject, sift
from penstock.testing.clock import START_AT
from tests.unit.hub.feeds import a_feed

FEED = a_feed(2, partition_strategy="user_defined", schema={"type": "json_schema", "schema": '{"required": ["n"]}'})


def event(data: bytes, **others: object) -> NewEvent:
    return NewEvent.of(data, **{"partition": 0} | others)  # type: ignore[arg-type]


def test_where_all_are_valid_nothing_is_changed() -> None:
    handed = Handed([event(b'{"n":1}')])

    assert sift(FEED, handed, START_AT) == (handed, ())


def test_each_that_is_wrong_is_told_by_its_line() -> None:
    right = [event(b'{"n":1}'), event(b'{"n":2}', partition=1)]
    wrong = [
        event(b'{"m":1}', key="k", headers={"h": "1"}),
        event(b"7"),
        event(b'{"n":1}', partition=2),
        event(b"{\xff}"),
    ]
    handed = Handed([wrong[0], right[0], *wrong[1:], right[1]], lines=[1, 2, 4, 5, 6, 9])

    valid, rejected = sift(FEED, handed, START_AT)

    assert (valid.events, valid.lines) == (right, [2, 9])
    assert [(each.line, each.data) for each in rejected] == [
        (1, '{"m":1}'), (4, "7"), (5, '{"n":1}'), (6, "{\\xff}"),
    ]  # fmt: skip
    assert rejected[0] == Reject(1, rejected[0].reason, '{"m":1}', "k", {"h": "1"}, 0)
    assert "required" in rejected[0].reason
    assert all(each.reason for each in rejected)
