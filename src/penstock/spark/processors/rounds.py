"""Rounds on the driver: plans them, and passes the executors' results to the engine."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from penstock.errors import HandlerFailed
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.stream import Call
from penstock.processing.engine.tranche import Batch, SourceItem, count_events
from penstock.processing.outcomes import Failure, done_to
from penstock.processing.snapshot import Tally
from penstock.processing.sources.source import ReadRequest
from penstock.spark.processors.reading import Again, ProcessingPlan
from penstock.spark.processors.results import Result
from penstock.spark.processors.sources.source import Look, TrancheRange


class Planned(NamedTuple):
    """The plan of a round, and the ranges that it reads."""

    plan: ProcessingPlan
    look: Look
    """The available events."""
    new: Mapping[str, TrancheRange]
    """The ranges of new events, by tranche."""
    again: Sequence[TrancheRange]
    """The ranges that were read before."""

    @classmethod
    def of(
        cls,
        engine: Engine,
        look: Look,
        wants: Mapping[str, ReadRequest],
        again: Sequence[Call],
        *,
        timeout: float | None = None,
        partitions: int = 1,
    ) -> Self:
        """Plan a round.

        Args:
            engine: The processor's engine.
            look: The available events.
            wants: The engine's read requests, by tranche.
            again: The calls to make with events that were read before.
            timeout: See `ProcessingPlan`.
            partitions: See `ProcessingPlan`.

        Raises:
            EventsLost, BadParameter: see `Look.check`; also if the round reads only events that were read before.
            EventsLost: see `Look.stretch`.
        """
        look.check(engine.positions())
        new = dict[str, TrancheRange]()
        for tranche, want in wants.items():
            found = look.stretch(tranche, want.position, want.events_max)
            if found is not None:
                new[tranche] = found
        old = {call.stream: engine.find_tranche(call.stream) for call in again}
        places = tuple(dict.fromkeys([*look.tranches, *old.values()]))
        numbers = {place: number for number, place in enumerate(places)}
        spans = {call.stream: Again(numbers[old[call.stream]], call.index, call.next) for call in again}
        waiting = frozenset(engine.list_known())
        numberings = tuple(map(look.numbering, places))
        plan = ProcessingPlan(places, numberings, spans, waiting, engine.rules.events_per_call, timeout, partitions)
        return cls(plan, look, new, stretches_of(spans, places))


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
    items: list[SourceItem] = [
        SpanItem(each.stream, each.first, each.next, each.events, each.received) for each in found
    ]
    return Batch(stretch.tranche, stretch.position, items, is_tail=stretch.is_tail, size=size)


def stretches_of(spans: Mapping[str, Again], places: tuple[str, ...]) -> list[TrancheRange]:
    """Return what is to be read again: of each tranche from the first event that is wanted to the last."""
    bounds: dict[int, tuple[int, int]] = {}
    for span in spans.values():
        start, end = bounds.get(span.place, (span.start, span.next))
        bounds[span.place] = (min(start, span.start), max(end, span.next))
    return [TrancheRange(places[number], start, end, end - start) for number, (start, end) in bounds.items()]


ALL: Final = 1 << 62
"""As many calls as there are."""
_log: Final = logging.getLogger("penstock.processing")


class ResultIntake:
    """Applies the executors' results to the engine of a processor on Spark.

    For a new stream in several tranches, executors have handled the events of the plan's first place, and let the
    others wait. So batches are ingested in the order of these places: the engine begins a stream with the first events
    that it gets, and thus returns the same calls that the executors have made.

    Args:
        engine: The processor's engine.
        tally: The processor's counters.
        clock: A monotonic clock, in seconds.
        passes_over_loss: Skip events that are gone; otherwise their streams fail.
    """

    def __init__(self, engine: Engine, tally: Tally, clock: Callable[[], float], *, passes_over_loss: bool) -> None:
        self._engine = engine
        self._tally = tally
        self._clock = clock
        self._passes_over_loss = passes_over_loss

    def take_in(self, planned: Planned, results: Sequence[Result], again: Iterable[Call]) -> None:
        """Apply the results of a round.

        Args:
            planned: The round.
            results: Its results.
            again: The calls that it has made with events that were read before.

        Raises:
            HandlerFailed: a stream has used its attempts. The results of other streams are applied nevertheless.
        """
        places, now, exhausted = planned.plan.places, self._clock(), list[HandlerFailed]()
        self._tally.cpu.add("handle", sum(result.computed for result in results))
        told = {result.stream: result for result in results if result.again}
        for call in again:
            self._settle_or_note(call, told.get(call.stream), now, exhausted)
        found = [result for result in results if not result.again]
        self._ingest(planned, found, now)
        done = {(result.stream, places[result.place]): result for result in found if result.state != "waiting"}
        for call in self._engine.take(ALL, now):
            result = done.get((call.stream, self._engine.find_tranche(call.stream)))
            if result is None:
                self._engine.give_back(call)
            else:
                self._settle_or_note(call, result, now, exhausted)
        if exhausted:
            raise exhausted[0]

    def _ingest(self, planned: Planned, found: Iterable[Result], now: float) -> None:
        places, new = planned.plan.places, planned.new
        by_place: dict[str, list[Result]] = {place: [] for place in places if place in new}
        for result in found:
            by_place[places[result.place]].append(result)
        for tranche, spans in by_place.items():
            spans.sort(key=lambda result: result.first)
            size = sum(each.events for each in spans)
            batch, began = batch_of(new[tranche], self._trim(tranche, spans), size), self._clock()
            self._engine.ingest(batch, now)
            self._tally.note_batch(batch, self._clock() - began)

    def _trim(self, tranche: str, found: Sequence[Result]) -> Sequence[Result]:
        """Return spans without what handlers have skipped of them before it came."""
        engine, trimmed = self._engine, []
        for each in found:
            wanted = engine.find_next_index(each.stream, tranche) if each.state == "waiting" else 0
            if each.first < wanted < each.next:
                left = min(each.events, each.next - wanted)  # As far as can be told without what was read.
                engine.repeats += each.events - left
                trimmed.append(each._replace(first=wanted, events=left))
            else:
                trimmed.append(each)
        return trimmed

    def _settle_or_note(self, call: Call, result: Result | None, now: float, exhausted: list[HandlerFailed]) -> None:
        """Settle a call; note what is to stop the processor, once all that has come of the round is taken in."""
        try:
            self._settle(call, result, now)
        except HandlerFailed as error:
            exhausted.append(error)

    def _settle(self, call: Call, result: Result | None, now: float) -> None:
        """Settle a call with its result; None: its events no longer exist."""
        engine = self._engine
        if result is None:
            told = f"{call.stream} from {call.index} up to {call.next}: its events are not there any more"
            _log.warning("%s", told)
            is_over = self._passes_over_loss
            engine.settle(call, done_to(call.next, tag="gone") if is_over else Failure("gone", told), now, 0.0)
            return
        first = call.events[0]
        if isinstance(first, SpanItem) and first.index < result.first < first.next:
            call.index = first.index = result.first  # Behind what was done others may have had their events.
        before = engine.handled
        engine.settle(call, result.outcome, now, result.took)
        engine.handled = before + result.handled  # The engine knows of spans alone.
        begun = engine.find_partial_item(call.stream)
        if isinstance(begun, SpanItem):
            to = result.next if result.to is None else result.to
            begun.cut(to, result.passed - sum(count_events(each) for each in call.events if each.next <= to))
