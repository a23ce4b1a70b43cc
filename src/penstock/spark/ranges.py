"""Ranges of offsets, cut and gathered into tasks that keep the cores busy and are worth their start."""

import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

EVENTS_PER_TASK_MAX: Final = 500_000
"""About a second's reading: so much is read again when a task fails, and so evenly cores can be kept busy."""
WORTH_A_TASK: Final = 20_000
"""Events that take about as long to read as a task does to start."""
RANGE_COST: Final = 1_000
"""Events that take about as long to read as a request does to begin."""


class Range(NamedTuple):
    """Events of one partition: from the offset *start*, up to but without *end*."""

    event_type: str
    epoch: int
    partition_count: int
    """Of the feed, when the range was planned."""
    partition: int
    start: int
    end: int

    @property
    def events(self) -> int:
        """How many events it has."""
        return self.end - self.start


def plan_tasks(
    ranges: Sequence[Range], *, min_tasks: int | None, cores: int, splits: bool = True
) -> list[tuple[Range, ...]]:
    """Return what each task reads: together every event of *ranges* once.

    A large range is cut, small ones are gathered; within a task a partition's events stay in order. *min_tasks* is
    kept to wherever there are so many events; None asks for as many as are worth it on *cores*. Unless it *splits*, a
    range is left whole: then what a task has of a partition is all of it.
    """
    ranges = [each for each in ranges if each.events > 0]
    events = sum(each.events for each in ranges)
    if not events:
        return []
    tasks = -(-events // EVENTS_PER_TASK_MAX)
    if min_tasks is not None:
        tasks = max(tasks, min(min_tasks, events))
    else:
        worth = -(-(events + RANGE_COST * len(ranges)) // WORTH_A_TASK)
        rounds = -(-tasks // cores)
        tasks = min(cores * rounds, max(tasks, worth))  # Whole rounds, so that no core waits for the others at the end.
    size = -(-events // tasks)
    pieces = [piece for each in ranges for piece in cut(each, size)] if splits else ranges
    return _gather(pieces, max(tasks, -(-len(pieces) * RANGE_COST // EVENTS_PER_TASK_MAX)))


def cut(whole: Range, size: int) -> list[Range]:
    """Cut *whole* into as few ranges of at most *size* events as will do, about equally long.

    >>> [(piece.start, piece.end) for piece in cut(Range("order.placed", 1, 4, 0, 100, 110), 4)]
    [(100, 103), (103, 106), (106, 110)]
    """
    parts = -(-whole.events // size)
    bounds = [whole.start + whole.events * part // parts for part in range(parts + 1)]
    return [whole._replace(start=start, end=end) for start, end in pairwise(bounds)]


def _gather(pieces: Sequence[Range], tasks: int) -> list[tuple[Range, ...]]:
    """Give each piece, the longest first, to the task that has least to do."""
    load = [(0, task) for task in range(tasks)]
    given: list[list[Range]] = [[] for _ in range(tasks)]
    for piece in sorted(pieces, key=lambda piece: -piece.events):
        cost, task = heapq.heappop(load)
        given[task].append(piece)
        heapq.heappush(load, (cost + piece.events + RANGE_COST, task))
    return [tuple(sorted(task)) for task in given if task]
