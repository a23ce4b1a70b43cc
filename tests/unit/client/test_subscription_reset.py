"""Where a reset of a subscription moves its partitions, and the resets that are refused."""

from typing import Any

import pytest

from penstock.client.registry import PartitionOffsets
from penstock.client.subscriptions.model import SubscriptionCursor
from penstock.client.subscriptions.protocol import assign_resets, check_resets, plan_resets
from penstock.errors import UnusablePosition
from penstock.wire.groups import PositionReset, ResetPosition

THEN, BEFORE, LONG_BEFORE = (f"{year}-01-01T00:00:00Z" for year in (2026, 2025, 1999))
ENDS = {
    "a": [PartitionOffsets(0, 3, 10, 41), PartitionOffsets(1, 3, 0, -1)],
    "b": [PartitionOffsets(0, 1, 0, 6)],
}
STANDS = [SubscriptionCursor("a", 0, 3, 20), SubscriptionCursor("a", 1, 2, 7)]
Since = dict[tuple[str, str], dict[int, int]]


def moves_of(*items: PositionReset, since: Since | None = None) -> list[ResetPosition]:
    return plan_resets(assign_resets(check_resets(["a", "b"], items, None, None), ENDS), since or {}, STANDS)


@pytest.mark.parametrize(
    ("item", "offset"),
    [
        (PositionReset("a", 0, to="begin"), 10),
        (PositionReset("a", 0, to="end"), 42),
        (PositionReset("a", 0, offset=10), 10),
        (PositionReset("a", 0, offset=42), 42),
        (PositionReset("a", 0, at=THEN), 17),
        (PositionReset("a", 0, at=BEFORE), 10),
        (PositionReset("a", 0, at=LONG_BEFORE), 10),
    ],
    ids=["begin", "end", "first offset", "end offset", "time", "time behind retention", "time before all events"],
)
def test_partition_moves_to_the_goal_of_its_reset(item: PositionReset, offset: int) -> None:
    since: Since = {("a", THEN): {0: 17}, ("a", BEFORE): {0: 3}, ("a", LONG_BEFORE): {}}

    assert moves_of(item, since=since) == [ResetPosition("a", "", 0, 3, 20, offset, 42, 42 - offset)]


def test_reset_without_items_or_partition_moves_all_of_the_subscription_or_event_type() -> None:
    found = plan_resets(assign_resets(check_resets(["b", "a"], None, "end", None), ENDS), {}, STANDS)

    assert [(each.event_type, each.partition, each.came_from, each.offset) for each in found] == [
        ("a", 0, 20, 42),
        ("a", 1, None, 0),
        ("b", 0, None, 7),
    ]

    found = moves_of(PositionReset("b", to="end"), PositionReset("a", to="begin"))

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
def test_reset_to_an_impossible_position_is_refused_by_item(items: list[PositionReset], reason: str) -> None:
    with pytest.raises(UnusablePosition, match=reason):
        moves_of(*items)


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
def test_reset_without_exactly_one_goal_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        check_resets(["a"], **given)
