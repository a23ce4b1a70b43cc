"""The engine of a processor: it turns batches into calls, and settled calls into positions.

A runner opens tranches, ingests the batches that it reads, takes calls, settles them, and commits positions:

    engine.open("0", position)
    if engine.room("0"): engine.ingest(batch, now)
    for call in engine.take(8, now): … engine.settle(call, outcome, now, took)
    engine.positions()

Invariants:
    A stream has at most one call at a time. Its events are handled in the order of their indices.
    A position never passes an event that is not done, and never decreases.
    A blocked stream or tranche does not block others, up to the limits for reading ahead.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from random import Random
from typing import NamedTuple

from penstock.errors import BadParameter, HandlerFailed
from penstock.processing.engine.parking import Parked, Parking, Place, SequencedParking
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.stream import BatchRequirement, BusyStreams, Call, DeferredItem, ReadyQueue, Stream
from penstock.processing.engine.tranche import (
    Batch,
    Position,
    SourceItem,
    Tranche,
    UnfinishedBatch,
    bad_index,
    count_events,
)
from penstock.processing.outcomes import Failure, Outcome, to_timeout
from penstock.processing.parameters import INDEX_END, check_kind
from penstock.processing.stats import Latency, Stats, limit_tag


class PredictedProgress(NamedTuple):
    """The progress of an engine after given results."""

    positions: Mapping[str, Position]
    """Positions by tranche."""
    ahead: Mapping[Place, int | None]
    """Changes of the streams that are ahead of these positions; None: the stream is no longer ahead."""
    parked: Mapping[Place, Parked]
    """Remaining spans of parked streams that are tried again."""
    touched: AbstractSet[str]
    """The tranches that the results make progress in."""
    gone: AbstractSet[str]
    """Streams that were parked or given up while their calls went on: the results of these calls must not be kept."""


class StateCount(NamedTuple):
    """The streams in one state."""

    streams: int
    events: int
    """Events that wait or that handlers have; those that wait behind an active call count as ready."""


class Engine:
    """Schedules the calls of one processor, and tracks their progress.

    Memory: the events that are read ahead, and the positions of up to `Rules.remember` idle streams.

    Args:
        rules: The processor's rules.
        chance: Random numbers for the jitter of delays.
        is_patient: True if a stream is parked only when its call has ended, however long it lasts.
        is_dense: True if the indices of a stream have no gaps, so that the engine can detect a missing event.

    Raises:
        BadParameter: the rules require all events, but the source's indices have gaps, which hide missing events.
    """

    def __init__(self, rules: Rules, chance: Random, *, is_dense: bool, is_patient: bool = False) -> None:
        check_kind("rules", rules, Rules, "Rules(…)")
        if rules.require_all and not is_dense:
            allowed = "False of a source whose indices have gaps: what is missing cannot be told from what never was"
            raise BadParameter(parameter="require_all", value=True, allowed=allowed)
        self.rules = rules
        self.is_dense = is_dense
        self.busy = BusyStreams()
        self.parking = SequencedParking(self._skip_span) if rules.require_all else Parking(self._skip_span)
        """The parked streams."""
        self.latency: dict[str, Latency] = {}
        """Durations of calls by result: `ok`, or the tag of an outcome or a failure."""
        self.stats = Stats()
        """Counters, observations and gauges of handlers."""
        self.handled = 0
        """Number of events that handlers have completed."""
        self.repeats = 0
        """Number of events that were ignored as repeats."""
        self._chance, self._is_patient = chance, is_patient
        self._tranches: dict[str, Tranche] = {}
        self._streams: dict[str, Stream] = {}
        self._ready = ReadyQueue()
        self._ends: dict[str, int] = {}
        """Ends of the spans that dense streams no longer have parked, while they have others in other tranches."""
        self._rested = 0
        """Number of times that a stream became idle."""
        self._batches = 0

    @property
    def counts(self) -> Counter[str]:
        """The handlers' counters."""
        return self.stats.counts

    def open(
        self, tranche: str, position: Position, ahead: Mapping[str, int] | None = None, *, is_exact: bool = True
    ) -> None:
        """Begin with a tranche at *position*.

        Args:
            tranche: Its name.
            position: All events before it are done.
            ahead: Indices up to which streams are done beyond the position; None: the checkpoint does not store them.
                Else `find_ahead_changes` and `predict` return the changes to store.
            is_exact: True if *ahead* has every stream that is ahead; else it has only those whose parked span ended.
                Dropped events are never handled, even if they are read again.
        """
        most, events = self.rules.batches_ahead, self.rules.events_ahead
        self._tranches[tranche] = Tranche(
            tranche, position, batches_max=most, events_max=events, ahead=ahead, is_exact=is_exact
        )
        if ahead and self.is_dense:  # Dense indices belong to the stream, not to the tranche.
            for stream, index in ahead.items():
                if stream not in self.parking.streams:
                    self._get_or_add(stream, tranche).move(index)

    def close(self, tranche: str) -> None:
        """Stop calling handlers with events of a tranche. Active calls may still move its position."""
        self._tranches[tranche].is_closed = True

    def forget(self, tranche: str) -> None:
        """Forget a tranche, its unfinished events and its parked spans, which the checkpoint has.

        Its streams go on with their events of other tranches.
        """
        found = self._tranches.pop(tranche)
        for stream in [*self._streams.values()]:
            first = stream.queue[:1]
            if not stream.leave(found):
                continue
            if stream.tranche is found or stream.queue[:1] != first:
                self.busy.forget(stream.name)
                stream.attempts = 0
            if stream.tranche is not found:
                self._list_again(stream)
            elif stream.later:
                self._move_on(stream)
            else:
                del self._streams[stream.name]
        self._unload(tranche)

    def ingest(self, batch: Batch, now: float) -> None:
        """Add a batch of a tranche; its events become ready for calls.

        Raises:
            BadParameter: an event's index is below 0, or too large to store. No position passes its batch.
        """
        tranche = self._tranches.get(batch.tranche)
        if tranche is None or tranche.is_closed:
            return  # The tranche was given up during the read.
        running = tranche.begin(self._batches, batch)
        self._batches += 1
        streams, parked, is_sparse = self._streams, self.parking.streams, not self.is_dense
        active, ahead, add = self.busy.active, tranche.ahead, self._ready.add
        waits = self.rules.require_all
        unseen = ahead.unseen if ahead is not None else None
        running.missing += 1  # Until all events are added: no position passes a refused one.
        for item in batch.items:
            name, index = item.stream, item.index
            if not 0 <= index < INDEX_END:
                raise bad_index(item, tranche.name)
            if unseen and name in unseen and ahead is not None and ahead.is_repeat(item, running):
                self.repeats += count_events(item)
                continue
            if name in parked and not ((stream := streams.get(name)) and stream.has_events_of(tranche)):
                self.parking.wait(item, tranche.name, running.start)
                continue
            stream = streams.get(name)
            if stream is None or (is_sparse and stream.tranche is not tranche and stream.is_idle):
                stream = streams[name] = Stream(name, tranche)
                stream.call = active.get(name)  # One that was given up may still go on.
            elif is_sparse and stream.tranche is not tranche:
                stream.defer(DeferredItem(item, tranche, running))
                continue
            end = stream.end
            if index >= end >= stream.write:  # As `take_in` does, here without a call: nearly all come so.
                stream.is_gapped |= index > end
                stream.queue.append(item)
                stream.end = end = item.next
                if (wants := stream.requirements) and wants[-1].running is running:
                    wants[-1].next = end
                else:
                    wants.append(BatchRequirement(end, running, tranche, index))
                    running.missing += 1
            elif not stream.take_in(item, tranche, running):
                self.repeats += count_events(item)
                continue
            if not stream.is_listed and stream.call is None:
                self._list(stream) if waits else add(stream)
        running.missing -= 1
        self._ready.wake(now)
        tranche.advance()

    def take(self, count: int, now: float) -> list[Call]:
        """Return up to *count* calls to make now. The runner limits how many are active at once."""
        concurrency, busy, ready = self.rules.concurrency, self.busy, self._ready
        ready.wake(now)
        calls: list[Call] = []
        while len(calls) < count:
            stream = ready.pop(len(busy.troubled_calls), concurrency)
            if stream is None:
                break
            if stream.queue and not stream.tranche.is_closed:
                calls.append(self._make_call(stream, now))
            elif self._streams.get(stream.name) is stream and not stream.tranche.is_closed:
                self._retire(stream)  # Else another stream replaced it, or its tranche is closed.
        return calls

    def settle(self, call: Call, result: Outcome | Failure, now: float, took: float) -> None:
        """Record the result of a call, which took *took* seconds.

        Raises:
            HandlerFailed: the stream has used its attempts, and the rules stop the processor then. The cause is the
                handler's exception, if it is known.
        """
        self._measure(result, took)
        stream = self._streams.get(call.stream)
        if stream is None or call.given_up is not None:
            self._end_given_up(call, stream)
            return
        stream.call = None
        if isinstance(result, Failure):
            self.busy.fail(call, result)
            stream.put_back(call.events)
            if not call.is_overdue:
                stream.attempts += 1
            self._fail(stream, call, result, now)
        else:
            self._succeed(stream, call, result, now)

    def give_back(self, call: Call) -> None:
        """Take back a call that was not made: its stream becomes ready again, without a failed attempt."""
        stream = self._streams.get(call.stream)
        if stream is None or call.given_up is not None:
            self._end_given_up(call, stream)
            return
        stream.call = None
        self.busy.end(call)
        stream.put_back(call.events)
        self._list(stream)

    def mark_overdue(self, now: float) -> list[Call]:
        """Return the calls that have just become overdue: they count as failed, though they go on.

        `settle` them when they end: only then are their streams called again.

        Raises:
            HandlerFailed: one of their streams has used its attempts, and the rules stop the processor then.
        """
        most = self.rules.timeout
        if most is None:
            return []
        late = [call for call in self.busy.active.values() if not call.is_overdue and now - call.called > most]
        failure = to_timeout(most)
        for call in late:
            if call.given_up is not None:
                continue
            stream = self._streams[call.stream]
            call.is_overdue = True
            stream.attempts += 1
            self.busy.mark_overdue(call, failure)
            parks = self.rules.exhausted == "park"
            if call.is_below(stream.write):
                self._forgive(stream)
            elif self._is_exhausted(stream) and not (self._is_patient and parks):
                if parks:  # Else the result of the call counts as usual.
                    call.given_up = stream.tranche.name
                    stream.put_back(call.events)
                self._give_up(stream, call, failure)
        return late

    @property
    def due(self) -> float | None:
        """Time at which the next waiting stream becomes ready; None: no stream waits for a time."""
        return self._ready.due

    def check_health(self, now: float) -> None:
        """Raise ProcessorUnhealthy if streams have made no progress for longer than the rules allow."""
        self.busy.check(self.rules.health, now)

    def advance_stream(self, stream: str, index: int) -> None:
        """Advance a stream to *index*: lower events will never come, or need not be handled."""
        found = self._get_or_add(stream, next(iter(self._tranches)))  # Dense streams' indices are not a tranche's.
        if stream in self.parking.streams:
            self.parking.advance(stream, found.tranche.name, index, 0)
        self._meet(found.move(index))
        self._list_again(found)

    # Parked streams and replays

    def list_known(self) -> set[str]:
        """Return the streams with unfinished events or a remembered index: their next events are handled in order."""
        known = {*self._streams, *self.parking.streams}
        return known.union(*(tranche.unseen for tranche in self._tranches.values()))

    def find_next_index(self, stream: str, tranche: str) -> int:
        """Return the next index of a stream to handle in a tranche: lower events are handled or skipped."""
        found, passed = self._streams.get(stream), self._tranches[tranche].unseen.get(stream, 0)
        return max(found.write, passed) if found is not None and found.tranche.name == tranche else passed

    def find_partial_item(self, stream: str) -> SourceItem | None:
        """Return a stream's first waiting item if it is partly done. Only an item of several events can be."""
        found = self._streams.get(stream)
        first = found.queue[0] if found is not None and found.queue else None
        return first if found is not None and first is not None and first.index < found.write else None

    def list_replays(self) -> list[Parked]:
        """Return the spans to read again, of parked streams that are tried again."""
        return [replay for replay in self.parking.list_replays() if self._needs_events(replay.stream)]

    def count_replaying(self, tranche: str) -> int:
        """Return the number of replayed events of a tranche that are in memory."""
        retried = (self._streams.get(stream) for stream in self.parking.retried)
        return sum(stream.held_count for stream in retried if stream is not None and stream.tranche.name == tranche)

    def replay_all(self, replays: Sequence[Parked], page: Batch | Failure, now: float) -> None:
        """Add a page that was read again for several streams, from the position of *replays*, or the read's failure."""
        if isinstance(page, Failure):
            for replay in replays:
                self.replay(replay, page, now)
            return
        items: defaultdict[str, list[SourceItem]] = defaultdict(list)
        for item in page.items:
            items[item.stream].append(item)
        for replay in replays:
            self.replay(replay, page._replace(items=items[replay.stream]), now)

    def replay(self, replay: Parked, batch: Batch | Failure, now: float) -> None:
        """Add the events of one stream that were read again from the position of *replay*, or the read's failure."""
        if isinstance(batch, Failure):  # It is parked as before.
            self.parking.fail(replay, batch)
            return
        name = replay.stream
        stream = self._streams.get(name)
        is_elsewhere = stream is not None and not self.is_dense and stream.tranche.name != batch.tranche
        if is_elsewhere and stream is not None and not stream.is_idle:
            return  # It has newer events since the request: they are handled first, then the page is read again.
        items = self.parking.take_page(replay, batch)
        if not items:
            return
        tranche = self._tranches[batch.tranche]
        if stream is None or is_elsewhere:
            stream = self._streams[name] = Stream(name, tranche)
            stream.call = self.busy.active.get(name)  # One that was given up may still go on.
            stream.write = self.parking.find_beginning(name, items)
        elif stream.is_idle:
            stream.tranche = tranche
        stream.take_again(items)
        if stream.is_idle:  # The stream is already past all of them.
            self._end_page(stream)
        elif stream.call is None and not stream.is_listed and not self._needs_events(name):
            self._ready.add(stream)
        self._ready.wake(now)

    def retry(self, stream: str) -> None:
        """Try a stream again if it is parked: see `list_replays`."""
        self.parking.retry(stream)

    def drop(self, stream: str) -> None:
        """Drop the parked events of a stream: they are never handled. The stream goes on with later events."""
        found = self._streams.get(stream)
        if found is not None and not found.requirements:
            found.move(found.end)
            self.busy.forget(stream)
            if found.call is None:
                del self._streams[stream]
        self.parking.drop(stream)

    # Progress, and the state that another process resumes from

    def find_tranche(self, stream: str) -> str:
        """Return the tranche of a stream's present events."""
        return self._streams[stream].tranche.name

    def find_tranches(self, call: Call) -> Collection[str]:
        """Return the tranches of a call's events."""
        stream = self._streams.get(call.stream)
        if call.given_up is not None or stream is None:
            return () if call.given_up is None else (call.given_up,)
        return {stream.tranche.name, *(want.tranche.name for want in stream.requirements if want.first < call.next)}

    def find_missing(self) -> dict[str, tuple[int, int]]:
        """Return the streams that wait for a missing index, each with that index and the next one present."""
        if not self.rules.require_all:
            return {}
        return {
            name: (stream.write, stream.queue[0].index)
            for name, stream in self._streams.items()
            if stream.queue and stream.call is None and stream.queue[0].index > stream.write
            if not self.parking.is_searched(name)
        }

    def is_active(self, tranche: str) -> bool:
        """Return whether a tranche has active calls."""
        return any(tranche in self.find_tranches(call) for call in self.busy.active.values())

    def tranche(self, name: str) -> Tranche:
        """Return a tranche, with its progress."""
        return self._tranches[name]

    def room(self, tranche: str) -> int:
        """Return how many events of *tranche* may be read now; 0: none until others are done."""
        return self._tranches[tranche].room

    @property
    def is_idle(self) -> bool:
        """True if all ingested events are done."""
        return not any(tranche.batches for tranche in self._tranches.values())

    def positions(self) -> dict[str, Position]:
        """Return each tranche's position to resume from: all events before it are done."""
        return {name: tranche.completed for name, tranche in self._tranches.items()}

    def find_ahead_changes(self) -> dict[Place, int | None]:
        """Return the streams that are ahead of their tranche's position, with their index; None: no longer ahead.

        Only changes since the last `confirm_ahead` are returned.
        """
        return {
            (stream, name): index
            for name, tranche in self._tranches.items()
            if tranche.ahead is not None
            for stream, index in tranche.ahead.find_changes().items()
        }

    def confirm_ahead(self, changes: Mapping[Place, int | None]) -> None:
        """Record that *changes* from `find_ahead_changes` are stored."""
        for (stream, name), index in changes.items():
            tranche = self._tranches.get(name)
            if tranche is not None and tranche.ahead is not None:
                tranche.ahead.confirm(stream, index)

    def predict(self, results: Iterable[tuple[Call, Outcome | Failure]]) -> PredictedProgress:
        """Return the progress to store once calls are settled with these *results*."""
        met: Counter[UnfinishedBatch] = Counter()
        reached: list[tuple[str, int, BatchRequirement]] = []
        parked: dict[Place, Parked] = {}
        touched, gone = set(), set()
        for call, result in results:
            if isinstance(result, Failure):
                continue
            stream = self._streams.get(call.stream)
            if stream is None or stream.call is not call or call.given_up is not None:
                gone.add(call.stream)
                continue
            to = call.next if result.next is None else result.next
            touched.add(stream.tranche.name)
            met.update(want.running for want in stream.requirements if want.next <= to)
            reached += [(stream.name, to, want) for want in stream.find_progressing(to)]
            if self.parking.is_read(call.stream):
                foreseen = self.parking.predict_spans(call.stream, stream.tranche.name, to, call.count_below(to))
                parked |= {each.place: each for each in foreseen}
        ended = {name: tranche.predict_ended(met) for name, tranche in self._tranches.items()}
        return PredictedProgress(
            {name: each[-1].end if each else self._tranches[name].completed for name, each in ended.items()},
            self._predict_ahead(reached, ended),
            parked,
            touched,
            gone,
        )

    def count_states(self) -> dict[str, StateCount]:
        """Return the number of streams in each state.

        A handler has an `active` stream and could be called with a `ready` one. A `waiting` stream waits for its time,
        a `gapped` one for a missing index. A `parked` one is set aside; a `synced` one has no events to handle.
        The cost grows with the number of streams that have events to handle.
        """
        ready, streams = self._ready, self._streams
        active = self.busy.active
        calling = sum(_count_all(call.events) for call in active.values())
        behind = sum(_count_all(streams[name].queue) for name in active if name in streams)
        could = sum(
            _count_all(each.queue) for line in (ready._urgent, ready._healthy, ready._troubled) for each in line
        )
        waiting = sum(_count_all(each.queue) for _, _, each in ready._held)
        gapped = self.find_missing()
        spans = [span for found in self.parking.streams.values() for span in found.values()]
        found = {
            "active": StateCount(len(active), calling),
            "ready": StateCount(len(ready), behind + could),
            "waiting": StateCount(len(ready._held), waiting),
            "gapped": StateCount(len(gapped), sum(_count_all(streams[name].queue) for name in gapped)),
            "parked": StateCount(len(self.parking.streams), sum(span.events for span in spans)),
        }
        others = sum(each.streams for state, each in found.items() if state != "parked")
        return {**found, "synced": StateCount(max(0, len(streams) - others), 0)}

    # Calls

    def _make_call(self, stream: Stream, now: float) -> Call:
        events = stream.take_head(is_dense=self.is_dense, events_max=self.rules.events_per_call)
        call = stream.call = Call(stream.name, events, stream.attempts + 1, now, now)
        self.busy.begin(call)
        return call

    def _end_given_up(self, call: Call, stream: Stream | None) -> None:
        """Record the end of a call whose stream was parked meanwhile, and may have new events since."""
        self.busy.end(call)
        if stream is not None and stream.call is call:
            stream.call = None
            self._list_again(stream)

    def _succeed(self, stream: Stream, call: Call, outcome: Outcome, now: float) -> None:
        end = call.next
        to = end if outcome.next is None else outcome.next
        is_passed = call.is_below(stream.write)
        has_progressed = is_passed or to > call.index
        self.busy.succeed(call, has_progressed=has_progressed, tag=outcome.tag)
        if outcome.counts or outcome.stats is not None:
            self.stats.merge(outcome.counts, outcome.stats)
        stream.attempts = 0
        stream.has_stalled = not has_progressed
        for want in stream.find_progressing(to):
            want.tranche.reach(stream.name, to, want.running)
        if has_progressed:
            self._meet(stream.move(to))
        if to < end:
            stream.put_back(call.events)
        handled = call.count_below(to)
        self.handled += handled
        if self.parking.is_read(stream.name):
            self.parking.advance(stream.name, stream.tranche.name, to, handled)
        if not stream.queue or is_passed or (has_progressed and outcome.after_seconds is None):
            self._list(stream)
        elif outcome.after_seconds is not None:
            self._ready.hold(stream, now + outcome.after_seconds)
        else:
            self._ready.hold(stream, now + self._draw_delay(self.busy.stalled[stream.name].attempts))

    def _fail(self, stream: Stream, call: Call, failure: Failure, now: float) -> None:
        if call.is_below(stream.write):
            self._forgive(stream)
            self._list(stream)
        elif self._is_exhausted(stream):
            self._give_up(stream, call, failure)
        else:
            self._ready.hold(stream, now + self._draw_delay(stream.attempts))

    def _forgive(self, stream: Stream) -> None:
        """Clear a stream's failures: it was advanced past the failed event meanwhile."""
        self.busy.forget(stream.name)
        stream.attempts = 0

    def _draw_delay(self, attempts: int) -> float:
        return self.rules.backoff.delay(attempts, self._chance.random())

    def _is_exhausted(self, stream: Stream) -> bool:
        most = self.rules.attempts_max
        return most is not None and stream.attempts >= most

    def _give_up(self, stream: Stream, call: Call, failure: Failure) -> None:
        if self.rules.exhausted == "stop":
            raise HandlerFailed(
                stream=stream.name, index=call.index, attempts=stream.attempts, tag=failure.tag, reason=failure.detail
            ) from failure.error
        self._park(stream, call, failure)

    def _park(self, stream: Stream, call: Call, failure: Failure) -> None:
        """Park a stream with all its waiting events: its batches no longer wait for it."""
        parking = self.parking
        for parked in stream.set_aside(call, failure):
            parking.park(parked)
        self.busy.forget(stream.name)
        self._meet(stream.move(stream.end))
        del self._streams[stream.name]
        for later in stream.later:
            parking.wait(later.item, later.tranche.name, later.running.start)
        self._meet(stream.later)

    def _list(self, stream: Stream) -> None:
        """Add a stream without an active call to the ready ones, if it has events to handle."""
        queue = stream.queue
        if not queue:
            self._retire(stream)
        elif not self.rules.require_all or queue[0].index <= stream.write:
            self._ready.add(stream)

    def _list_again(self, stream: Stream) -> None:
        if stream.call is None and not stream.is_listed:
            self._list(stream)

    def _meet(self, wants: Sequence[BatchRequirement | DeferredItem]) -> None:
        """Mark *wants* as met in their batches, and advance tranches whose oldest batch is done."""
        for want in wants:
            running = want.running
            running.missing -= 1
            if running.missing == 0 and running.number == want.tranche.oldest:
                want.tranche.advance()

    def _retire(self, stream: Stream) -> None:
        """Forget an idle stream, unless its index is needed to recognise repeats."""
        stream.attempts = 0
        if stream.later:
            self._move_on(stream)
            return
        if self.parking.is_read(stream.name) and not self._end_page(stream):
            return
        if stream.write <= stream.end and not self.is_dense:
            del self._streams[stream.name]
            return
        stream.rested = self._rested = self._rested + 1
        if self._rested % (self.rules.remember // 2 + 1) == 0:
            self._purge()

    def _move_on(self, stream: Stream) -> None:
        """Continue a stream with its later events of another tranche."""
        followed = self._streams[stream.name] = stream.make_successor()
        self._meet([later for later in stream.later if later.tranche is followed.tranche])
        self._list(followed)

    def _purge(self) -> None:
        """Forget the streams that are idle longest, if there are more than `Rules.remember`.

        If all events are required, no stream is forgotten: missing events could not be detected then. A stream that
        skips events still to come is not forgotten either.
        """
        most = self.rules.remember
        if self.rules.require_all or len(self._streams) <= most:
            return
        idle = [stream for stream in self._streams.values() if stream.is_idle and stream.write <= stream.end]
        for stream in sorted(idle, key=attrgetter("rested"))[: max(0, len(idle) - most)]:
            del self._streams[stream.name]

    def _measure(self, result: Outcome | Failure, took: float) -> None:
        kind = result.tag or "ok"
        latency = self.latency.get(kind) or self.latency.setdefault(limit_tag(kind, self.latency), Latency())
        latency.add(took)

    # Parked streams

    def _needs_events(self, stream: str) -> bool:
        """Return whether a stream has no active call and no event in memory that could be handled now."""
        if stream in self.busy.active:  # A stream parked during a call waits for its end.
            return False
        found = self._streams.get(stream)
        if found is None or found.is_idle:
            return True
        # Events in memory are handled first; with require_all, they may wait for events to be read again.
        return self.rules.require_all and bool(found.queue) and found.queue[0].index > found.write

    def _get_or_add(self, stream: str, tranche: str) -> Stream:
        found = self._streams.get(stream)
        if found is None:
            found = self._streams[stream] = Stream(stream, self._tranches[tranche])
            found.call = self.busy.active.get(stream)
        return found

    def _end_page(self, stream: Stream) -> bool:
        """Record that a stream's replayed page is done; return whether the stream has caught up and is kept."""
        name, tranche = stream.name, stream.tranche.name
        if not self.is_dense:  # More events may have come than were replayed.
            stream.end = max(stream.end, self.parking.streams[name][tranche].next)
        del self._streams[name]
        self.parking.end_page(name, tranche)
        if not self.is_dense and name not in self.parking.streams:
            self._streams[name] = stream  # It may skip events that have not come yet.
        return name in self._streams

    def _unload(self, tranche: str) -> None:
        """Forget the parked spans of a tranche that is given up."""
        self.parking.unload(tranche)
        self._ends = {stream: end for stream, end in self._ends.items() if stream in self.parking.streams}

    def _skip_span(self, parked: Parked) -> None:
        """Skip the events of a parked span that has ended, though its tranche's position may lie before them."""
        tranche = self._tranches.get(parked.tranche)
        if tranche is None:
            return
        tranche.pass_over(parked.stream, parked.next)
        if self.is_dense:
            self._advance_past_parked(parked)

    def _advance_past_parked(self, parked: Parked) -> None:
        """Advance a stream past its parked spans once all have ended, so that missing events there are detected."""
        name = parked.stream
        end = max(parked.index, parked.next, self._ends.pop(name, 0))
        if name in self.parking.streams:
            self._ends[name] = end
            return
        found = self._get_or_add(name, parked.tranche)
        if not found.requirements:  # Else it goes on with its present events: another processor parked that span.
            found.move(end)
            found.end = max(found.end, end)

    def _predict_ahead(
        self, reached: Iterable[tuple[str, int, BatchRequirement]], ended: Mapping[str, Sequence[UnfinishedBatch]]
    ) -> dict[Place, int | None]:
        over = {running for each in ended.values() for running in each}
        by_tranche: dict[str, dict[str, int]] = defaultdict(dict)
        for stream, to, want in reached:
            if want.running not in over:
                by_tranche[want.tranche.name][stream] = to
        return {
            (stream, name): index
            for name, tranche in self._tranches.items()
            if tranche.ahead is not None
            for stream, index in tranche.ahead.predict_changes(by_tranche[name], ended[name]).items()
        }


def _count_all(items: Sequence[SourceItem]) -> int:
    """Return the number of events in *items*. A processor's items are all events, or all spans."""
    return sum(map(count_events, items)) if items and hasattr(items[0], "events") else len(items)
