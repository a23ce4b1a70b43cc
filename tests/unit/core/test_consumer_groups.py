import pytest

from penstock.core.group_names import is_group_name
from penstock.core.groups.groups import GroupProgress, PartitionExtent, TotalLag, is_slice, measure_lag


def standing(
    offset: int,
    extent: PartitionExtent | None = PartitionExtent(2, 10, 100),  # noqa: B008 - it is immutable
    *,
    epoch: int = 2,
    received_at: int | None = None,
    slice: str = "",
    tranche: int = 0,
) -> GroupProgress:
    return GroupProgress("mailer", "order.placed", slice, tranche, epoch, offset, 0, extent, received_at)


@pytest.mark.parametrize(
    ("found", "gap", "lost", "stuck"),
    [
        (standing(100), 0, 0, None),
        (standing(60), 40, 0, None),
        (standing(10), 90, 0, None),
        (standing(7), 90, 3, "retention has removed 3 events after it"),
        (standing(120), 0, 0, None),
        (standing(60, epoch=1), 90, None, "it is of the feed's epoch 1, which is now 2"),
        (standing(60, None), None, None, "there is no such partition any more"),
    ],
    ids=["at the end", "behind", "at the beginning", "behind retention", "beyond", "of another epoch", "nowhere"],
)
def test_position_shows_the_gap_to_the_end_and_the_lost_events(
    found: GroupProgress, gap: int | None, lost: int | None, stuck: str | None
) -> None:
    assert (found.gap, found.lost, found.stuck_reason) == (gap, lost, stuck)


def test_lag_is_the_age_of_the_oldest_event_and_never_negative() -> None:
    assert standing(60, received_at=400).lag(1_000) == 600
    assert standing(60, received_at=400).lag(300) == 0
    assert standing(100).lag(1_000) == 0


def test_lag_and_offsets_of_a_group_are_sums_over_its_slowest_slices() -> None:
    slices = [
        standing(90, slice="8/0", received_at=700),
        standing(40, slice="8/4", received_at=300),
        standing(80, slice="4/0", received_at=600),
        standing(95, slice="4/1", tranche=1, received_at=900),
        standing(5, None, slice="4/2", tranche=2),
    ]

    assert measure_lag(slices, 1_000) == TotalLag(60 + 5, 700, 40 + 95 + 5)


@pytest.mark.parametrize(
    ("text", "is_name"),
    [("mailer", True), ("a/b, c", True), ("x" * 255, True), ("x" * 256, False), ("a\n", False), ("\x00", False)],
    ids=repr,
)
def test_names_of_groups_and_slices_are_printable_ascii(text: str, is_name: bool) -> None:
    assert is_group_name(text) == is_slice(text) == is_name
    assert is_slice("")
    assert not is_group_name("")
