import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.planning import EVENTS_PER_TASK_MAX, Range, cut, plan_tasks


def of(partition: int, start: int, end: int) -> Range:
    return Range("order.placed", 1, 8, partition, start, end)


@st.composite
def feeds(draw: st.DrawFn) -> list[Range]:
    sizes = draw(st.lists(st.integers(0, 2_000_000), max_size=8))
    return [of(partition, 7, 7 + size) for partition, size in enumerate(sizes)]


@given(feeds(), st.none() | st.integers(1, 40), st.integers(1, 32))
def test_every_event_is_in_one_task(ranges: list[Range], min_tasks: int | None, cores: int) -> None:
    tasks = plan_tasks(ranges, min_tasks=min_tasks, cores=cores)

    for whole in ranges:
        pieces = sorted(piece for task in tasks for piece in task if piece.partition == whole.partition)
        bounds = [whole.start, *(piece.end for piece in pieces)]
        assert bounds[-1] == whole.end
        assert [piece.start for piece in pieces] == bounds[:-1]


@given(feeds(), st.none() | st.integers(1, 40), st.integers(1, 32))
def test_no_task_is_empty_too_long_or_out_of_order(ranges: list[Range], min_tasks: int | None, cores: int) -> None:
    tasks = plan_tasks(ranges, min_tasks=min_tasks, cores=cores)

    assert all(tasks)
    assert all(list(task) == sorted(task) for task in tasks)
    assert all(sum(piece.events for piece in task) <= 2 * EVENTS_PER_TASK_MAX for task in tasks)


@pytest.mark.parametrize(
    ("sizes", "min_tasks", "cores", "tasks"),
    [
        ([0], 4, 8, 0),
        ([400_000], None, 8, 8),
        ([100_000_000], None, 8, 200),
        ([2_500_000], None, 4, 8),
        ([3] * 256, None, 4, 4),
        ([3] * 10, None, 4, 1),
        ([100], 7, 2, 7),
        ([3], 7, 2, 3),
    ],
    ids=[
        "none of nothing", "one for each core", "of a second or so each", "so that cores finish together",
        "few of few events", "one of very few", "at least so many", "no more than events",
    ],
)  # fmt: skip
def test_partitions_are_read_by_as_many_tasks_as_are_worth_it(
    sizes: list[int], min_tasks: int | None, cores: int, tasks: int
) -> None:
    ranges = [of(partition, 0, size) for partition, size in enumerate(sizes)]

    assert len(plan_tasks(ranges, min_tasks=min_tasks, cores=cores)) == tasks


@pytest.mark.parametrize("size", [1, 2, 3, 10, 11])
def test_pieces_are_about_equally_long(size: int) -> None:
    lengths = [piece.events for piece in cut(of(0, 100, 110), size)]

    assert sum(lengths) == 10
    assert max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1


def test_ranges_may_be_left_whole() -> None:
    ranges = [Range("a", 1, 2, partition, 0, 3_000_000) for partition in range(2)]

    assert plan_tasks(ranges, min_tasks=8, cores=2, splits=False) == [(each,) for each in ranges]
