"""The driver's loop of a processor on Spark.

    survey, wants ──▶ plan ──▶ Spark: read ▶ shuffle by stream ▶ call ──▶ results ──▶ engine ──▶ commit

A round is one action of Spark's: nothing is read or called twice for it. Streams that are not done are carried over by
their offsets, and read again when they are due; the positions kept are our own, and Spark keeps nothing.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from penstock.errors import BadParameter, CheckpointMoved, PenstockError
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.engine.call import Call
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.item import Batch, Item
from penstock.processing.engine.outcome import done_to
from penstock.processing.engine.rules import Rules
from penstock.processing.handling import Classify, Handler
from penstock.processing.progress import Progress
from penstock.processing.runners.observing import Observing, name_of
from penstock.processing.runners.processor import Processor
from penstock.processing.sources.feed import FeedSource, Start
from penstock.processing.sources.feed_position import FeedPosition, decode_tranche, encode_tranche
from penstock.spark.connection import Hub
from penstock.spark.heads import Heads, recreated
from penstock.spark.loss import report_loss
from penstock.spark.processors.calling import CallAll
from penstock.spark.processors.cores import cores_of
from penstock.spark.processors.looking import looking
from penstock.spark.processors.plan import Again, Plan
from penstock.spark.processors.reading import EVENTS_SQL, Read
from penstock.spark.processors.results import RESULTS_SQL, Result, results_of
from penstock.spark.ranges import Range, plan_tasks
from penstock.wire.retry import is_passing

POLL_S: Final = 0.5
"""How often it is looked for new events, where there is nothing to do."""
LOOK_S: Final = 0.5
"""How often somebody looks at it while it waits for Spark, or for the hub."""
RETRY_SECONDS: Final = 60.0
"""So long executors ask a hub again that does not answer, before a round is given up and begun anew."""
ALL: Final = 1 << 62
_log: Final = logging.getLogger("penstock.processing")


@dataclass(slots=True, eq=False)
class SpanItem:
    """Events of a stream that follow each other, without what they say."""

    stream: str
    index: int
    next: int
    events: int
    received: int | None
    """When the hub took the first of them, in microseconds since 1970."""


class Planned(NamedTuple):
    """A round as it is planned."""

    plan: Plan
    ends: Mapping[str, int]
    """Up to where each tranche is read."""
    heads: Mapping[str, Heads]
    """What there is of each event type."""


class SparkProcessor(Processor):
    """A processor whose handler runs on Spark's executors, from `start` to `stop`, or as long as a `with` block.

    Everything else is as with `Local`: the same handlers, outcomes, rules and checkpoints, and the same promises. A
    stream is handled by one task at a time, in order; tasks run beside each other, and the next round begins when all
    are done. A task that Spark runs again, since its executor has died, calls its handlers again. Executors need
    Penstock with its dependencies, and whatever the handler imports.

    Args:
        spark: The session.
        handler: See `Handler`. It is sent to the executors as Spark sends functions.
        url: The hub's address, as executors reach it.
        event_types: Which feeds, at least one.
        start: As for `FeedSource`.
        fail_on_loss: As for `FeedSource`.
        checkpoints: Where it keeps how far it is; by default in memory.
        rules: What it keeps to. With `timeout_s`, calls are made in child processes, which are killed when it is over.
            `concurrency` is Spark's: as many tasks go on as it has cores.
        classify: Names failures.
        partitions: Into how many tasks streams are shuffled; by default as many as Spark has cores.
        commit_s: How often it commits at least; besides it does when it stops.
        stats_s: How often it says in the log how it goes; None: never.
        name: What it is called in logs, views and metrics; by default what its checkpoints call it.
        clock: Seconds that never go back.

    Raises:
        BadParameter: Spark speculates: it would call handlers of one stream twice at once.
        PenstockError: (`stop`, `wait_until_caught_up`) what has ended it.
    """

    def __init__(
        self,
        spark: SparkSession,
        handler: Handler,
        url: str,
        *event_types: str,
        start: Start = "earliest",
        fail_on_loss: bool = True,
        checkpoints: Checkpoints | None = None,
        rules: Rules | None = None,
        classify: Classify | None = None,
        partitions: int | None = None,
        commit_s: float = 5.0,
        stats_s: float | None = 60.0,
        name: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if spark.conf.get("spark.speculation", "false") == "true":
            allowed = "false: a task that runs twice calls the handler of a stream twice at once"
            raise BadParameter(parameter="spark.speculation", value="true", allowed=allowed)
        self.engine = Engine(rules or Rules(), Random(), is_dense=False)  # noqa: S311 - Of delays.
        self._spark = spark
        self._handler = handler
        self._classify = classify
        self._hub = Hub(url, RETRY_SECONDS)
        self._source = FeedSource(url, *event_types, start=start, fail_on_loss=fail_on_loss)
        self._event_types = tuple(dict.fromkeys(event_types))
        self._fail_on_loss = fail_on_loss
        self._woken = threading.Event()
        checkpoints = checkpoints or MemoryCheckpoints()
        progress = Progress(self.engine, self._source, checkpoints)
        super().__init__(
            progress, self._woken.set, Observing(name_of(name, checkpoints), self.engine, stats_s, clock())
        )
        self._tally = self._observing.tally
        self._partitions = partitions or cores_of(spark)
        self._commit_s = commit_s
        self._clock = clock
        self._committed_at = clock()

    def close(self) -> None:
        """Let go of the hub, where rounds were carried out by `step` alone."""
        self._source.close()

    def step(self) -> bool:
        """Carry out one round; tell whether there was anything to do."""
        try:
            return self._round()
        finally:
            self._look()

    def _round(self) -> bool:
        now = self._clock()
        with self._waiting():
            found = self._progress.survey()
        self._progress.open(found)
        for replay, want in self._progress.replays():
            with self._waiting():
                batch = self._source.reread(replay.tranche, want)
            self.engine.replay(replay, batch, now)
        again = self.engine.take(ALL, now)
        try:
            planned = self._planned(again)
            has_work = bool(planned.plan.tasks or planned.plan.again_tasks)
            results = self._carried_out(planned.plan) if has_work else []
        except BaseException:
            for call in again:
                self.engine.give_back(call)
            raise
        if has_work:
            self._take_in(planned, results, again)
        self.engine.check_health(self._clock())
        return self._commit(now, is_idle=not has_work) or has_work

    def _go_on(self) -> None:
        try:
            is_busy = self.step()
        except PenstockError as error:
            if not is_passing(error):
                raise
            _log.warning("a round has failed, and is begun anew: %s", error.detail)
            is_busy = False
        if not is_busy:
            due = self.engine.due
            self._woken.wait(POLL_S if due is None else min(POLL_S, max(0.0, due - self._clock())))
        self._woken.clear()

    def _finish(self) -> None:
        try:
            if not isinstance(self._error, CheckpointMoved):
                self._commit_last()
        except BaseException as error:
            self._error = self._error or error
            raise
        finally:
            self._source.close()
            self._observing.end(self._clock(), self._error)

    def _look(self) -> None:
        self._observing.look(self._clock())

    def _waiting(self) -> AbstractContextManager[None]:
        """Have somebody look meanwhile. The engine is to be left alone."""
        return looking(self._look, LOOK_S)

    def _planned(self, again: Iterable[Call]) -> "Planned":
        """Plan a round."""
        with self._waiting():
            heads = {event_type: self._hub.heads(event_type) for event_type in self._event_types}
        new: list[Range] = []
        for tranche, want in self._progress.wants().items():
            event_type, partition = decode_tranche(tranche)
            place, head = FeedPosition.decode(str(want.position)), heads[event_type]
            if partition >= len(head.nexts):
                continue
            start = self._start_of(tranche, place, head)
            end = min(head.nexts[partition], start + want.events_max)
            if end > start:
                new.append(Range(event_type, head.epoch, len(head.nexts), partition, start, end))
        places = tuple(sorted({(name, at) for name, head in heads.items() for at in range(len(head.nexts))}))
        numbers = {place: number for number, place in enumerate(places)}
        spans = {call.stream: _again(call, self.engine.tranche_of(call.stream), numbers) for call in again}
        old = _ranges(spans, places, heads)
        cores = self._partitions
        plan = Plan(
            self._hub,
            places,
            tuple(plan_tasks(new, min_tasks=None, cores=cores)),
            spans,
            tuple(plan_tasks(old, min_tasks=None, cores=cores)),
            frozenset(self.engine.known()),
            frozenset(name for name in self._event_types if self._source.is_hashed(name)),
            self._fail_on_loss,
            self.engine.rules.events_per_call,
            self.engine.rules.timeout_s,
        )
        return Planned(plan, {encode_tranche(each.event_type, each.partition): each.end for each in new}, heads)

    def _start_of(self, tranche: str, place: FeedPosition, head: Heads) -> int:
        """Return the offset from which a tranche is read on.

        Raises:
            EventsLost: the feed was created again, and that is to fail.
        """
        if place.epoch == head.epoch:
            return place.offset
        event_type, partition = decode_tranche(tranche)
        reason = recreated(place.epoch, head.epoch)
        report_loss(self._fail_on_loss, event_type=event_type, partition=partition, lost=None, reason=reason)
        return head.floors[partition]

    def _carried_out(self, plan: Plan) -> list[Result]:
        tasks = len(plan.tasks) + len(plan.again_tasks)
        events = self._spark.range(0, tasks, 1, tasks).mapInArrow(Read(plan), EVENTS_SQL)
        calls = CallAll(plan, self._handler, self._classify)
        shuffled = events.repartition(min(self._partitions, max(1, tasks * 4)), "stream")
        self._tally.begin_round(self._clock())
        try:
            with self._waiting():
                return results_of(shuffled.mapInArrow(calls, RESULTS_SQL).toArrow())
        finally:
            self._tally.end_round(self._clock())

    def _take_in(self, planned: Planned, results: list[Result], again: Iterable[Call]) -> None:
        plan, ends, heads = planned
        now, engine = self._clock(), self.engine
        by_tranche: dict[str, list[Result]] = {tranche: [] for tranche in ends}
        told: dict[str, Result] = {}
        self._tally.cpu.add("handle", sum(result.computed for result in results))
        for result in results:
            if result.again:
                told[result.stream] = result
            else:
                by_tranche[encode_tranche(*plan.places[result.place])].append(result)
        for call in again:
            self._settle(call, told.get(call.stream), now)
        done: dict[str, Result] = {}
        for tranche, found in by_tranche.items():
            found.sort(key=lambda result: result.first)
            done |= {result.stream: result for result in found if result.state != "waiting"}
            batch, began = self._batch(tranche, found, ends[tranche], heads), self._clock()
            engine.ingest(batch, now)
            self._tally.read(batch, self._clock() - began)
        for call in engine.take(ALL, now):
            if call.stream in done:
                self._settle(call, done[call.stream], now)
            else:
                engine.give_back(call)

    def _batch(self, tranche: str, found: Iterable[Result], end: int, heads: Mapping[str, Heads]) -> Batch:
        event_type, partition = decode_tranche(tranche)
        items: list[Item] = [SpanItem(each.stream, each.first, each.next, each.events, each.received) for each in found]
        is_tail = end >= heads[event_type].nexts[partition]
        size = sum(each.events for each in found)
        return Batch(tranche, FeedPosition(heads[event_type].epoch, end).encode(), items, is_tail=is_tail, size=size)

    def _settle(self, call: Call, result: Result | None, now: float) -> None:
        """Settle a call with what has come of it; None: its events are not there any more."""
        engine = self.engine
        if result is None:
            engine.settle(call, done_to(call.next, tag="gone"), now, 0.0)
            return
        before = engine.handled
        engine.settle(call, result.outcome, now, result.took)
        engine.handled = before + result.handled  # The engine knows of spans alone.
        to = result.first if result.state == "failed" else result.next if result.to is None else result.to
        for item in call.events:  # What is done of a span is not read again.
            if isinstance(item, SpanItem) and item.index < to < item.next:
                item.index = to

    def _commit(self, now: float, *, is_idle: bool) -> bool:
        if not (
            is_idle
            or self._catching_up.count
            or self._progress.has_parked
            or now - self._committed_at >= self._commit_s
        ):
            return False
        self._committed_at = now
        progress, advance = self._progress, self._progress.advance()
        if not (advance or progress.has_parked):
            return False
        try:
            with self._waiting():
                requests = progress.write(advance)
        except CheckpointMoved:
            raise
        except PenstockError as error:
            self._tally.commit_failed()
            _log.warning("a commit has failed, and is made up for by the next: %s", error.detail)
            return False
        self._tally.committed()
        return progress.committed(advance, requests) or bool(advance)

    def _commit_last(self) -> None:
        try:
            self._progress.commit()
        except PenstockError:
            self._tally.commit_failed()
            raise
        self._tally.committed()


def _again(call: Call, tranche: str, numbers: Mapping[tuple[str, int], int]) -> Again:
    return Again(numbers[decode_tranche(tranche)], call.index, call.next)


def _ranges(spans: Mapping[str, Again], places: tuple[tuple[str, int], ...], heads: Mapping[str, Heads]) -> list[Range]:
    """Return what is to be read again: of each partition from the first event that is wanted to the last."""
    bounds: dict[int, tuple[int, int]] = {}
    for span in spans.values():
        start, end = bounds.get(span.place, (span.start, span.next))
        bounds[span.place] = (min(start, span.start), max(end, span.next))
    found = []
    for number, (start, end) in bounds.items():
        event_type, partition = places[number]
        head = heads[event_type]
        found.append(Range(event_type, head.epoch, len(head.nexts), partition, start, min(end, head.nexts[partition])))
    return found
