"""Spans of streams, in the place of the events that a driver never sees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.processing.engine.item import Batch, Item
from penstock.spark.processors.plan import Again
from penstock.spark.processors.results import Result
from penstock.spark.processors.sources.source import TrancheRange


@dataclass(slots=True, eq=False)
class SpanItem:
    """Events of a stream that follow each other, without what they say."""

    stream: str
    index: int
    next: int
    events: int
    received: int | None
    """When the hub took the first of them, in microseconds since 1970."""

    def cut(self, to: int, passed: int) -> None:
        """Begin at *to*: what was passed is not read again, nor counted, as far as it is known how much that was."""
        self.index, self.events = to, max(1, min(self.events - passed, self.next - to))


def batch_of(stretch: TrancheRange, found: Sequence[Result], size: int) -> Batch:
    """Return spans that executors have found in a stretch as what was read of its tranche."""
    items: list[Item] = [SpanItem(each.stream, each.first, each.next, each.events, each.received) for each in found]
    return Batch(stretch.tranche, stretch.position, items, is_tail=stretch.is_tail, size=size)


def stretches_of(spans: Mapping[str, Again], places: tuple[str, ...]) -> list[TrancheRange]:
    """Return what is to be read again: of each tranche from the first event that is wanted to the last."""
    bounds: dict[int, tuple[int, int]] = {}
    for span in spans.values():
        start, end = bounds.get(span.place, (span.start, span.next))
        bounds[span.place] = (min(start, span.start), max(end, span.next))
    return [TrancheRange(places[number], start, end, end - start) for number, (start, end) in bounds.items()]
