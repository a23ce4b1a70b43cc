from typing import Any

import pytest

from penstock.client.event_types import PartitionOffsets
from penstock.client.subscription import SubscriptionCursor
from penstock.client.subscription_reset import checked_resets, goals, moves
from penstock.errors import UnusablePosition
from penstock.wire.groups import PositionReset, ResetPosition

THEN = "2026-01-01T00:00:00Z"
ENDS = {
    "a": [PartitionOffsets(0, 3, 10, 41), PartitionOffsets(1, 3, 0, -1)],
    "b": [PartitionOffsets(0, 1, 0, 6)],
}
STANDS = [SubscriptionCursor("a", 0, 3, 20), SubscriptionCursor("a", 1, 2, 7)]
Since = dict[tuple[str, str], dict[int, int]]


def moved(*items: PositionReset, since: Since | None = None) -> list[ResetPosition]:
    return moves(goals(checked_resets(["a", "b"], items, None, None), ENDS), since or {}, STANDS)


@pytest.mark.parametrize(
    ("item", "offset"),
    [
        (PositionReset("a", 0, to="begin"), 10),
        (PositionReset("a", 0, to="end"), 42),
        (PositionReset("a", 0, offset=10), 10),
        (PositionReset("a", 0, offset=42), 42),
        (PositionReset("a", 0, at=THEN), 17),
    ],
    ids=["begin", "end", "the first that is there", "the end as a number", "a time"],
)
def test_where_a_partition_goes(item: PositionReset, offset: int) -> None:
    assert moved(item, since={("a", THEN): {0: 17}}) == [ResetPosition("a", "", 0, 3, 20, offset, 42, 42 - offset)]


@pytest.mark.parametrize("since", [{0: 3}, {}], ids=["what is gone by now", "before all that there is"])
def test_a_time_before_what_is_there_leads_to_the_first_that_is(since: dict[int, int]) -> None:
    [found] = moved(PositionReset("a", 0, at=THEN), since={("a", THEN): since})

    assert found.offset == 10


def test_without_items_all_that_it_reads_is_moved() -> None:
    found = moves(goals(checked_resets(["b", "a"], None, "end", None), ENDS), {}, STANDS)

    assert [(each.event_type, each.partition, each.came_from, each.offset) for each in found] == [
        ("a", 0, 20, 42),
        ("a", 1, None, 0),
        ("b", 0, None, 7),
    ]


def test_without_a_partition_all_of_the_event_type_are_meant() -> None:
    found = moved(PositionReset("b", to="end"), PositionReset("a", to="begin"))

    assert [(each.event_type, each.partition, each.offset) for each in found] == [
        ("a", 0, 10),
        ("a", 1, 0),
        ("b", 0, 7),
    ]


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([PositionReset("c", to="end")], r"items\[0\], 'c': the subscription does not read"),
        ([PositionReset("a", 2, to="end")], r"items\[0\], partition 2 of 'a': it has 2, numbered from 0"),
        ([PositionReset("a", 0, offset=9)], r"partition 0 of 'a': offset 9 is not from 10 .* to 42"),
        ([PositionReset("a", 0, offset=43)], r"partition 0 of 'a': offset 43 is not from 10 .* to 42"),
        (
            [PositionReset("a", 1, to="end"), PositionReset("a", to="begin")],
            r"items\[1\], partition 1 of 'a': items\[0\] moves it already",
        ),
    ],
    ids=["another event type", "no such partition", "an offset that is gone", "an offset to come", "twice"],
)
def test_what_cannot_be_is_refused(items: list[PositionReset], reason: str) -> None:
    with pytest.raises(UnusablePosition, match=reason):
        moved(*items)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"items": [PositionReset("a")], "to": None, "at": None}, r"items\[0\]: give one of to"),
        ({"items": [PositionReset("a", 0, offset=1, to="end")], "to": None, "at": None}, r"items\[0\]: give one of to"),
        ({"items": [PositionReset("a", offset=1)], "to": None, "at": None}, r"items\[0\]: an offset goes with"),
        ({"items": [PositionReset("a", to="end")], "to": "end", "at": None}, "leave them out beside items"),
        ({"items": None, "to": None, "at": None}, r"items\[0\]: give one of to"),
        ({"items": None, "to": "end", "at": THEN}, r"items\[0\]: give one of to"),
    ],
    ids=["no goal", "two goals", "an offset of no partition", "items and to", "nothing", "to and at"],
)
def test_a_goal_has_to_be_said_once(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        checked_resets(["a"], **given)
