"""Calls a handler on the executors, stream by stream. An exception of the handler fails its stream, and no task."""

import os
import pickle
import select
import signal
import struct
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadParameter
from penstock.processing.engine.stream import Call
from penstock.processing.handlers import Classify, Handler, StreamCaller, to_failure
from penstock.processing.outcomes import Failure, Outcome
from penstock.spark.processors.reading import EVENTS, Events, ProcessingPlan, numbers
from penstock.spark.processors.results import Result, in_batches

_HEAD: Final = struct.Struct("=I")
Made = tuple[Outcome | Failure, float]


def in_children(call: Callable[[int], Made], count: int, timeout: float) -> Iterator[Made]:
    """Yield the results of *call* for the numbers below *count*, one after the other, in child processes.

    A call's changes in memory are lost with its process. A call that takes longer than *timeout* fails with the tag
    `timeout`; a call whose process dies for another reason fails with `died`.
    """
    at = 0
    while at < count:
        child = _Child(call, at, count)
        try:
            while at < count:
                made = child.next(timeout)
                yield made
                at += 1
                if child.is_over:
                    break
        finally:
            child.end()


class _Child:
    """A process that makes calls from one number on, and tells what has come of each."""

    def __init__(self, call: Callable[[int], Made], first: int, count: int) -> None:
        self._end, told = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._end)
            _make(call, first, count, told)
        os.close(told)
        self.is_over = False
        """True if it makes no more calls: it was killed, or has died."""

    def next(self, timeout: float) -> Made:
        """Return what has come of the next call."""
        began = time.monotonic()
        told = self._receive(began + timeout)
        if told is not None:
            made: Made = pickle.loads(told)  # noqa: S301 - Our own child's.
            return made
        took = time.monotonic() - began
        self.is_over = True
        if took >= timeout:
            return Failure("timeout", f"the handler was not done after {timeout:g} s; its process was killed"), took
        return Failure("died", f"the handler's process has ended: {self._status()}"), took

    def end(self) -> None:
        """Kill it, if it is still there."""
        os.close(self._end)
        if self._pid:
            self._kill()

    def _receive(self, deadline: float) -> bytes | None:
        head = self._read(_HEAD.size, deadline)
        return None if head is None else self._read(_HEAD.unpack(head)[0], deadline)

    def _read(self, size: int, deadline: float) -> bytes | None:
        found = b""
        while len(found) < size:
            ready, _, _ = select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._end, size - len(found)) if ready else b""
            if not part:
                return None
            found += part
        return found

    def _status(self) -> str:
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._pid = 0


def _make(call: Callable[[int], Made], first: int, count: int, told: int) -> Any:
    """Make the calls, and end; never returns."""
    status = 1
    try:
        for at in range(first, count):
            made = pickle.dumps(call(at))
            os.write(told, _HEAD.pack(len(made)))
            view = memoryview(made)
            while view:
                view = view[os.write(told, view) :]
        status = 0
    finally:
        os._exit(status)


SAID: Final = ("kind", "data")
"""Columns that must be equal in two rows of one index."""


class Due(NamedTuple):
    """A call that is to be made."""

    result: Result
    events: Events

    def make_result(self, outcome: Outcome | Failure, took: float) -> Result:
        """Return what has come of it; what a row cannot hold is a failure of its stream alone."""
        try:
            passed = 0 if isinstance(outcome, Failure) else self.events.below(outcome.next)
            return self.result.with_outcome(outcome, took, passed)
        except Exception as error:  # noqa: BLE001 - Of whatever a handler has made.
            return self.result.with_outcome(to_failure(error, None), took, 0)


@dataclass(frozen=True)
class CallAll:
    """Calls *handler* with the streams of a partition. It is sent to executors, and so is the handler."""

    plan: ProcessingPlan
    handler: Handler
    classify: Classify | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what has come of each stream, as rows of `results.RESULTS`."""
        table = pa.Table.from_batches(batches, EVENTS)
        yield from in_batches(self.results(table)) if table.num_rows else ()

    def results(self, table: pa.Table) -> Iterator[Result]:
        """Make the calls for the events of *table*; yield their results, and the spans that wait."""
        due: list[Due] = []
        for result, events in self._spans(table):
            if events is None:
                yield result
            else:
                due.append(Due(result, events))
        handling = StreamCaller(self.handler, self.classify)

        def call(at: int) -> tuple[Outcome | Failure, float]:
            each = due[at]
            began = time.monotonic()
            outcome = handling(Call(each.result.stream, each.events, 1, began))
            return outcome, time.monotonic() - began

        calls: Iterable[tuple[Outcome | Failure, float]] = map(call, range(len(due)))
        if self.plan.timeout is not None:
            calls = in_children(call, len(due), self.plan.timeout)
        began, last = _measure_cpu_seconds(), None
        for each, (outcome, took) in zip(due, calls, strict=True):
            if last is not None:
                yield last
            last = each.make_result(outcome, took)
        if last is not None:  # Once for all: to look at the clock for each call would take a tenth of it.
            yield last._replace(computed=_measure_cpu_seconds() - began)

    def _spans(self, table: pa.Table) -> Iterator[tuple[Result, Events | None]]:
        """Yield each stream's spans, with their events where these are to be handled now; the others wait."""
        plan, sorted_table, starts = self.plan, *by_stream(table)
        streams = sorted_table.column("stream").take(pa.array(starts[:-1])).to_pylist()
        places = sorted_table.column("place").take(pa.array(starts[:-1])).to_pylist()
        agains = sorted_table.column("again").take(pa.array(starts[:-1])).to_pylist()
        arrivals = sorted_table.column("received").take(pa.array(starts[:-1])).to_pylist()
        offsets = numbers(sorted_table.column("offset"))
        called: set[str] = set()
        for at, (stream, place, again) in enumerate(zip(streams, places, agains, strict=True)):
            start, stop = starts[at], starts[at + 1]
            if again:
                wanted = plan.again[stream]
                if place != wanted.place:
                    continue
                start, stop = (bisect_left(offsets, index, start, stop) for index in (wanted.start, wanted.next))
            if start == stop:
                continue
            waits = not again and (stream in plan.waiting or stream in called)
            called.add(stream)
            end = stop if waits else min(stop, start + plan.events_per_call)
            first, behind = offsets[start], offsets[end - 1] + 1
            span = Result(stream, place, again, first, behind, end - start, arrivals[at])
            if waits:
                yield span, None
            else:
                yield span, Events(sorted_table, start, end, plan, place, behind=stop - end)
            if end < stop and not again:
                yield (
                    Result(stream, place, False, offsets[end], offsets[stop - 1] + 1, stop - end, None),
                    None,
                )


def _measure_cpu_seconds() -> float:
    """Return for how many seconds this process has computed, and its children that have ended."""
    found = (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in found)


def by_stream(table: pa.Table, name: str = "stream") -> tuple[pa.Table, list[int]]:
    """Return *table* sorted by stream, place and offset, old spans first; and the start of each group of these.

    Duplicate events are removed.

    Args:
        table: Events.
        name: The column to group by.

    Raises:
        BadParameter: two events of a group have the same index: progress could not tell them apart.
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
    groups = group.combine_chunks().take(indices)
    starts = [0, *pc.run_end_encode(groups).run_ends.to_pylist()]
    made = table.take(indices).combine_chunks()
    is_repeat = _repeats(made, groups, name)
    return (made, starts) if is_repeat is None else by_stream(made.filter(pc.invert(is_repeat)), name)


def _repeats(events: pa.Table, groups: pa.Array, name: str) -> pa.BooleanArray | None:
    """Return which rows are the event before them once more; None: none is."""
    before, after = slice(0, len(groups) - 1), slice(1, len(groups))
    offsets = events.column("offset")
    is_second = pc.and_(*(pc.equal(column[after], column[before]) for column in (offsets, groups)))
    if not pc.any(is_second).as_py():
        return None
    is_same = (pc.equal(filled[after], filled[before]) for filled in (pc.fill_null(events[each], "") for each in SAID))
    at = pc.index(pc.and_not(is_second, pc.and_(*is_same)), True).as_py()
    if at >= 0:
        stream = events.column(name)[at].as_py()
        allowed = "an index of one event alone; its row may be there twice"
        raise BadParameter(
            parameter="index", value=f"{offsets[at].as_py()}, of two events in {stream}", allowed=allowed
        )
    return pa.chunked_array([[False], *is_second.chunks])
