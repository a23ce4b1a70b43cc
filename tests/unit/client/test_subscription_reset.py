"""Where a reset of a subscription moves its partitions, and the resets that are refused."""

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.client.registry import PartitionOffsets
from penstock.client.subscriptions.model import SubscriptionCursor
from penstock.client.subscriptions.protocol import assign_resets, check_resets, plan_resets
from penstock.errors import UnusablePosition
from penstock.wire.groups import PositionReset, ResetPosition

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
THEN, BEFORE, LONG_BEFORE = (datetime(year, 1, 1, tzinfo=UTC) for year in (2026, 2025, 1999))
ENDS = {
    "a": [PartitionOffsets(0, 3, 10, 41), PartitionOffsets(1, 3, 0, -1)],
    "b": [PartitionOffsets(0, 1, 0, 6)],
}
STANDS = [SubscriptionCursor("a", 0, 3, 20), SubscriptionCursor("a", 1, 2, 7)]
Since = dict[tuple[str, datetime], dict[int, int]]


def moves_of(*items: PositionReset, since: Since | None = None) -> list[ResetPosition]:
    return plan_resets(assign_resets(check_resets(["a", "b"], items, None, NOW), ENDS), since or {}, STANDS)


@pytest.mark.parametrize(
    ("item", "offset"),
    [
        (PositionReset("a", 0, to="earliest"), 10),
        (PositionReset("a", 0, to="latest"), 42),
        (PositionReset("a", 0, offset=10), 10),
        (PositionReset("a", 0, offset=42), 42),
        (PositionReset("a", 0, to=THEN), 17),
        (PositionReset("a", 0, to=NOW - BEFORE), 10),
        (PositionReset("a", 0, to=LONG_BEFORE), 10),
    ],
    ids=[
        "earliest",
        "latest",
        "first offset",
        "end offset",
        "time",
        "duration behind retention",
        "time before all events",
    ],
)
def test_partition_moves_to_the_goal_of_its_reset(item: PositionReset, offset: int) -> None:
    since: Since = {("a", THEN): {0: 17}, ("a", BEFORE): {0: 3}, ("a", LONG_BEFORE): {0: 10}}

    assert moves_of(item, since=since) == [ResetPosition("a", "", 0, 3, 20, offset, 42, 42 - offset)]


def test_reset_without_items_or_partition_moves_all_of_the_subscription_or_event_type() -> None:
    found = plan_resets(assign_resets(check_resets(["b", "a"], None, "latest", NOW), ENDS), {}, STANDS)

    assert [(each.event_type, each.partition, each.came_from, each.offset) for each in found] == [
        ("a", 0, 20, 42),
        ("a", 1, None, 0),
        ("b", 0, None, 7),
    ]

    found = moves_of(PositionReset("b", to="latest"), PositionReset("a", to="earliest"))

    assert [(each.event_type, each.partition, each.offset) for each in found] == [
        ("a", 0, 10),
        ("a", 1, 0),
        ("b", 0, 7),
    ]


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([PositionReset("c", to="latest")], r"items\[0\], 'c': the subscription does not read"),
        ([PositionReset("a", 2, to="latest")], r"items\[0\], partition 2 of 'a': it has 2, numbered from 0"),
        ([PositionReset("a", 0, offset=9)], r"partition 0 of 'a': offset 9 is not from 10 .* to 42"),
        ([PositionReset("a", 0, offset=43)], r"partition 0 of 'a': offset 43 is not from 10 .* to 42"),
        (
            [PositionReset("a", 1, to="latest"), PositionReset("a", to="earliest")],
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
        ({"items": [PositionReset("a")], "to": None}, r"items\[0\]: give one of to"),
        ({"items": [PositionReset("a", 0, offset=1, to="latest")], "to": None}, r"items\[0\]: give one of to"),
        ({"items": [PositionReset("a", offset=1)], "to": None}, r"items\[0\]: an offset goes with"),
        ({"items": [PositionReset("a", to="latest")], "to": "latest"}, "leave it out beside items"),
        ({"items": None, "to": None}, r"items\[0\]: give one of to"),
    ],
    ids=["no goal", "two goals", "an offset of no partition", "items and to", "nothing"],
)
def test_reset_without_exactly_one_goal_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        check_resets(["a"], **given, now=NOW)
