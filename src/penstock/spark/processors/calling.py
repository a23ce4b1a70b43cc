"""Calls a handler on the executors, stream by stream. What it raises is a failure of that stream, and of no task."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadParameter
from penstock.processing.engine.call import Call
from penstock.processing.engine.outcome import Failure, Outcome
from penstock.processing.handling import Classify, Handler, Handling
from penstock.spark.processors.child import in_children
from penstock.spark.processors.events import Events
from penstock.spark.processors.plan import Plan
from penstock.spark.processors.reading import EVENTS
from penstock.spark.processors.results import Result, in_batches


class Due(NamedTuple):
    """A call that is to be made."""

    result: Result
    events: Events


@dataclass(frozen=True)
class CallAll:
    """Calls *handler* with the streams of a partition. It is sent to executors, and so is the handler."""

    plan: Plan
    handler: Handler
    classify: Classify | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what has come of each stream, as rows of `results.RESULTS`."""
        table = pa.Table.from_batches(batches, EVENTS)
        yield from in_batches(self.results(table)) if table.num_rows else ()

    def results(self, table: pa.Table) -> Iterator[Result]:
        """Make the calls that the events of *table* ask for, and yield what has come of each, and what waits."""
        due: list[Due] = []
        for result, events in self._spans(table):
            if events is None:
                yield result
            else:
                due.append(Due(result, events))
        handling = Handling(self.handler, self.classify)

        def call(at: int) -> tuple[Outcome | Failure, float]:
            each = due[at]
            began = time.monotonic()
            outcome = handling(Call(each.result.stream, each.events, 1, began))
            return outcome, time.monotonic() - began

        calls: Iterable[tuple[Outcome | Failure, float]] = map(call, range(len(due)))
        if self.plan.timeout_s is not None:
            calls = in_children(call, len(due), self.plan.timeout_s)
        began, last = _computed(), None
        for each, (outcome, took) in zip(due, calls, strict=True):
            if last is not None:
                yield last
            handled = 0 if isinstance(outcome, Failure) else each.events.below(outcome.next)
            last = each.result.with_outcome(outcome, took, handled)
        if last is not None:  # Once for all: to look at the clock for each call would take a tenth of it.
            yield last._replace(computed=_computed() - began)

    def _spans(self, table: pa.Table) -> Iterator[tuple[Result, Events | None]]:
        """Yield each stream's spans, with their events where these are to be handled now; the others wait."""
        plan, sorted_table, starts = self.plan, *by_stream(table)
        streams = sorted_table.column("stream").take(pa.array(starts[:-1])).to_pylist()
        places = sorted_table.column("place").take(pa.array(starts[:-1])).to_pylist()
        agains = sorted_table.column("again").take(pa.array(starts[:-1])).to_pylist()
        arrivals = sorted_table.column("received").take(pa.array(starts[:-1])).to_pylist()
        offsets = sorted_table.column("offset").to_numpy()
        called: set[str] = set()
        for at, (stream, place, again) in enumerate(zip(streams, places, agains, strict=True)):
            start, stop = starts[at], starts[at + 1]
            if again:
                wanted = plan.again[stream]
                if place != wanted.place:
                    continue
                start += int(offsets[start:stop].searchsorted(wanted.start))
                stop = starts[at] + int(offsets[starts[at] : stop].searchsorted(wanted.next))
            if start == stop:
                continue
            waits = not again and (stream in plan.waiting or stream in called)
            called.add(stream)
            end = stop if waits else min(stop, start + plan.events_per_call)
            tranche = plan.places[place]
            first, behind = int(offsets[start]), int(offsets[end - 1]) + 1
            span = Result(stream, place, again, first, behind, end - start, arrivals[at])
            if waits:
                yield span, None
            else:
                yield span, Events(sorted_table, start, end, tranche)
            if end < stop and not again:
                yield (
                    Result(stream, place, False, int(offsets[end]), int(offsets[stop - 1]) + 1, stop - end, None),
                    None,
                )


def _computed() -> float:
    """Return for how many seconds this process has computed, and its children that have ended."""
    found = (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in found)


def by_stream(table: pa.Table, name: str = "stream") -> tuple[pa.Table, list[int]]:
    """Return *table* sorted by stream, place and offset, old spans first; and where each group of these begins.

    Args:
        table: Events.
        name: The column that tells which belong together.

    Raises:
        BadParameter: an index stands twice in a group: nobody could tell which of the two is done.
    """
    codes = table.column(name).combine_chunks().dictionary_encode()
    order = pa.table(
        {
            "code": codes.indices,
            "place": table.column("place"),
            "old": pc.invert(table.column("again")),
            "offset": table.column("offset"),
        }
    )
    indices = pc.sort_indices(
        order, [("code", "ascending"), ("old", "ascending"), ("place", "ascending"), ("offset", "ascending")]
    )
    # One number for each group, so that its ends are where that changes.
    places = pc.max(order["place"]).as_py() + 2  # They may begin at -1.
    group = pc.add(
        pc.multiply(pc.add(pc.multiply(order["code"].cast(pa.int64()), 2), order["old"].cast(pa.int64())), places),
        order["place"].cast(pa.int64()),
    )
    starts = [0, *pc.run_end_encode(group.combine_chunks().take(indices)).run_ends.to_pylist()]
    made = table.take(indices).combine_chunks()
    _check_indices(made, starts, name)
    return made, starts


def _check_indices(events: pa.Table, starts: list[int], name: str) -> None:
    offsets = events.column("offset").to_numpy()
    is_same = offsets[1:] == offsets[:-1]
    is_same[[start - 1 for start in starts[1:-1]]] = False  # They are of two groups.
    if is_same.any():
        at = int(is_same.argmax())
        stream = events.column(name)[at].as_py()
        allowed = "indices that stand once in their tranche"
        raise BadParameter(parameter="index", value=f"{offsets[at]}, twice in {stream}", allowed=allowed)
