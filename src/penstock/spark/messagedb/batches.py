"""Where the next micro-batch ends, and which tasks read it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.spark.batches import Range, plan_tasks, share
from penstock.spark.messagedb.places import FIRST, CategoryPlace, CategoryRange, ended


class Counting(Protocol):
    """What counts events: a MessageDB, whose global positions have holes."""

    def count(self, stretch: CategoryRange, most: int | None = None) -> int:
        """Return how many events *stretch* has; *most* where it has more."""

    def behind(self, stretch: CategoryRange, events: int) -> int:
        """Return the global position behind the first *events* of *stretch*; its end where it has no more."""


def next_end(
    start: Mapping[str, CategoryPlace], heads: Mapping[str, int], events_max: int | None, store: Counting
) -> dict[str, CategoryPlace] | None:
    """Return where the micro-batch that begins at *start* ends; None when there is nothing new.

    *events_max* are shared among the categories; None takes all there is. A category that *start* does not know begins
    at its first event.
    """
    begins = {category: start[category].next if category in start else FIRST for category in heads}
    news = [
        CategoryRange(category, begins[category], head) for category, head in heads.items() if begins[category] < head
    ]
    ends = begins | {stretch.category: stretch.end for stretch in news}
    if events_max is not None:
        waiting = {stretch: store.count(stretch, events_max) for stretch in news}
        for stretch, events in share(events_max, waiting).items():
            if not events == waiting[stretch] < events_max:  # Else all of them fit.
                ends[stretch.category] = store.behind(stretch, events)
    if ends == begins and start.keys() >= heads.keys():
        return None
    return {category: ended(start.get(category), end) for category, end in ends.items()}


def plan(
    stretches: Sequence[CategoryRange], *, min_tasks: int | None, cores: int, store: Counting
) -> list[tuple[CategoryRange, ...]]:
    """Return what each task reads: together every event of *stretches* once, in tasks of about equally many events.

    They are planned by their numbers, which have no holes, then cut at the global positions that have these numbers.
    """
    numbered = [Range(stretch.category, 0, 1, 0, 0, store.count(stretch)) for stretch in stretches]
    tasks = plan_tasks(numbered, min_tasks=min_tasks, cores=cores)
    cut: dict[Range, CategoryRange] = {}
    for stretch in stretches:
        pieces = sorted(piece for task in tasks for piece in task if piece.event_type == stretch.category)
        cut |= dict(zip(pieces, cut_at(stretch, [piece.events for piece in pieces], store), strict=True))
    return [tuple(cut[piece] for piece in task) for task in tasks]


def cut_at(stretch: CategoryRange, sizes: Sequence[int], store: Counting) -> list[CategoryRange]:
    """Cut *stretch* into pieces of so many events each, the last of which goes to its end."""
    pieces, left = [], stretch
    for place, events in enumerate(sizes, start=1):
        end = store.behind(left, events) if place < len(sizes) else left.end
        pieces.append(left._replace(end=end))
        left = left._replace(start=end)
    return pieces
