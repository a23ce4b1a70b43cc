import pytest

from penstock.spark.nakadi.cursors import NakadiPartition, advanced, behind, beyond, is_before
from penstock.spark.nakadi.goal import Goal

A, B = NakadiPartition("a.b", "0"), NakadiPartition("a.b", "1")


def at(number: int, timeline: int = 1) -> str:
    return f"001-{timeline:04x}-{number:018}" if number >= 0 else f"001-{timeline:04x}--1"


@pytest.mark.parametrize(
    ("one", "other", "is_so"),
    [
        (None, at(-1), True),
        (at(-1), at(0), True),
        (at(9), at(10), True),
        (at(10), at(10), False),
        (at(99), at(0, timeline=2), True),
        (at(0, timeline=2), at(99), False),
    ],
)
def test_cursors_are_ordered_by_timeline_and_number(one: str | None, other: str, is_so: bool) -> None:
    assert is_before(one, other) is is_so


def test_cursors_not_yet_reached_are_behind() -> None:
    assert behind({A: at(5)}, {A: at(5), B: at(0)}) == {B: at(0)}
    assert behind({A: at(4), B: at(1)}, {A: at(5), B: at(0)}) == {A: at(5)}


def test_only_known_partitions_that_moved_on_are_beyond() -> None:
    assert beyond({A: at(6), B: at(7)}, {A: at(5)}) == {A: at(6)}
    assert beyond({A: at(5)}, {A: at(5)}) == {}


def test_the_end_of_a_timeline_is_the_beginning_of_the_next() -> None:
    assert beyond({A: at(-1, timeline=2)}, {A: at(5)}) == {}
    assert beyond({A: at(0, timeline=2)}, {A: at(5)}) == {A: at(0, timeline=2)}


def test_advanced_cursors_never_go_back() -> None:
    assert advanced({A: at(5)}, {A: at(3), B: at(1)}) == {A: at(5), B: at(1)}


def test_place_is_shown_as_partition_and_event_type() -> None:
    assert str(A) == "partition 0 of 'a.b'"


def test_goal_is_missing_until_all_partitions_reach_their_ends() -> None:
    goal = Goal({A: at(4), B: at(9)})
    goal.see({A: at(7)})
    goal.see({B: at(8)})

    assert goal.missing == {B: at(9)}
    assert (goal.has(A), goal.has(B)) == (True, False)

    goal.see({B: at(9)})
    assert not goal.missing


def test_partition_without_events_has_no_goal() -> None:
    goal = Goal({A: at(4)})

    assert goal.has(B)


def test_goal_once_reached_stays_reached() -> None:
    goal = Goal({A: at(4)})
    goal.see({A: at(4)})
    goal.see({A: at(1)})

    assert goal.has(A)
