"""Plans reads: where the next micro-batch ends, which ranges lie between two ends, and which task reads which."""

import heapq
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from penstock.spark.heads import Heads, settle
from penstock.spark.offsets import FeedPlace

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
    """Return the ranges that each task reads: together every event of *ranges* once.

    Large ranges are cut, small ones are combined; within a task a partition's events stay in order. There are at least
    *min_tasks* tasks if there are enough events; None: a suitable number for *cores*. Without *splits*, ranges stay
    whole: one task reads all of a partition.
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


def events_max(limit: ReadLimit) -> int | None:
    """Return how many events Spark's *limit* allows, None when there is none."""
    match limit:
        case ReadAllAvailable():
            return None
        case ReadMaxRows():
            return limit.max_rows
    raise TypeError(f"{limit} is a limit that this source has not named")


Key = TypeVar("Key", bound=Hashable)


def next_end(
    start: Mapping[str, FeedPlace],
    heads: Mapping[str, Heads],
    events_max: int | None,
    *,
    fail_on_loss: bool,
    rewound: Collection[str] = (),
) -> dict[str, FeedPlace] | None:
    """Return where the micro-batch that begins at *start* ends; None when there is nothing new.

    The event types that are *rewound* do not begin where the batch before has ended, which the end is to say.
    *events_max* are shared among the event types, each one's share among its partitions; None takes all there is.
    An event type that *start* does not know begins at its first event.

    Raises:
        EventsLost: events are gone that were not read, and that is to fail.
    """
    begins = {
        event_type: settle(event_type, start[event_type], ends, fail_on_loss=fail_on_loss)
        if event_type in start
        else ends.floors
        for event_type, ends in heads.items()
    }
    waiting = {
        event_type: {p: ends.nexts[p] - begin for p, begin in enumerate(begins[event_type])}
        for event_type, ends in heads.items()
    }
    taken = waiting
    if events_max is not None:
        shares = share(events_max, {event_type: sum(counts.values()) for event_type, counts in waiting.items()})
        taken = {event_type: share(shares[event_type], counts) for event_type, counts in waiting.items()}
    places, is_new = {}, False
    for event_type, ends in heads.items():
        begin, before = begins[event_type], start.get(event_type)
        place = FeedPlace(ends.epoch, tuple(offset + taken[event_type][p] for p, offset in enumerate(begin)))
        moved = before is None or event_type in rewound or not _goes_on(before, ends.epoch, begin)
        is_new = is_new or moved or place.offsets != begin
        if moved or (before is not None and before.begun == FeedPlace(before.epoch, before.offsets)):
            place = place._replace(begun=FeedPlace(ends.epoch, begin))
        places[event_type] = place
    return places if is_new else None


def opening(places: Mapping[str, FeedPlace]) -> dict[str, FeedPlace]:
    """Return *places* as the offset that a query begins with: Spark does not keep it, so the first end must."""
    return {event_type: place._replace(begun=place) for event_type, place in places.items()}


def ranges_between(start: Mapping[str, FeedPlace], end: Mapping[str, FeedPlace]) -> list[Range]:
    """Return what a micro-batch reads."""
    if start == end:
        return []
    ranges = []
    for event_type, place in end.items():
        begun = place.begun or start.get(event_type)
        known = begun.offsets if begun is not None and begun.epoch == place.epoch else ()
        begins = known + (0,) * (len(place.offsets) - len(known))
        for partition, (first, stop) in enumerate(zip(begins, place.offsets, strict=True)):
            if first < stop:
                ranges.append(Range(event_type, place.epoch, len(place.offsets), partition, first, stop))
    return ranges


def share(total: int, wanted: Mapping[Key, int]) -> dict[Key, int]:
    """Share *total* evenly among those who want some of it; what one does not need goes to the others.

    >>> share(100, {"a": 10, "b": 500, "c": 70})
    {'a': 10, 'b': 45, 'c': 45}
    """
    shares = dict.fromkeys(wanted, 0)
    hungry = sorted((count, place, key) for place, (key, count) in enumerate(wanted.items()) if count > 0)
    for served, (count, _, key) in enumerate(hungry):
        shares[key] = min(count, -(-total // (len(hungry) - served)))
        total -= shares[key]
    return shares


def _goes_on(before: FeedPlace, epoch: int, begin: tuple[int, ...]) -> bool:
    known = len(before.offsets)
    return before.epoch == epoch and begin[:known] == before.offsets and not any(begin[known:])
