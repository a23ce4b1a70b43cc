from penstock.spark.nakadi.cursors import Place
from penstock.spark.nakadi.goal import Goal
from tests.unit.spark.nakadi.serving import offset

A, B = Place("a.b", "0"), Place("a.b", "1")


def test_goal_is_missing_until_all_partitions_reach_their_ends() -> None:
    goal = Goal({A: offset(4), B: offset(9)})
    goal.see({A: offset(7)})
    goal.see({B: offset(8)})

    assert goal.missing == {B: offset(9)}
    assert (goal.has(A), goal.has(B)) == (True, False)

    goal.see({B: offset(9)})
    assert not goal.missing


def test_partition_without_events_has_no_goal() -> None:
    goal = Goal({A: offset(4)})

    assert goal.has(B)


def test_goal_once_reached_stays_reached() -> None:
    goal = Goal({A: offset(4)})
    goal.see({A: offset(4)})
    goal.see({A: offset(1)})

    assert goal.has(A)
