"""Streams, spans, calls and progress together.

A runner opens tranches, hands in what it reads, takes calls out, settles them, and commits positions:

    engine.open("0", position)
    if engine.room("0"): engine.ingest(batch, now)
    for call in engine.take(8, now): … engine.settle(call, outcome, now, took)
    engine.positions()

Invariants:
    A stream is never with two handlers. Its events are handed out by index, each until it is done.
    A position never passes an event that is not done, and never goes back.
    What holds one stream or one tranche back, holds no other, up to what may be read ahead.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from random import Random
from typing import NamedTuple

from penstock.errors import BadParameter, HandlerFailed
from penstock.processing.engine.busy import Busy
from penstock.processing.engine.item import Batch, Position, SourceItem, events_of, index_unfit
from penstock.processing.engine.parking import Parked, Parking, Place, Required
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.stream import BatchRequirement, Call, Later, Ready, Stream
from penstock.processing.engine.tranche import Running, Tranche
from penstock.processing.outcomes import Failure, Outcome, timed_out
from penstock.processing.parameters import INDEX_END, check_kind
from penstock.processing.stats import Latency, Stats, counted_as


class Foreseen(NamedTuple):
    """Where an engine will have come to."""

    positions: Mapping[str, Position]
    """By tranche."""
    ahead: Mapping[Place, int | None]
    """Of streams that will be ahead of these, or will be no more, what has changed."""
    parked: Mapping[Place, Parked]
    """Of parked streams that are tried again, what will be left."""
    touched: AbstractSet[str]
    """The tranches of which something will have been done."""
    gone: AbstractSet[str]
    """Streams that were parked or given up while their calls went on: what these have done is not to be kept."""


class StateCount(NamedTuple):
    """The streams in one state."""

    streams: int
    events: int
    """Events that wait or are with handlers; those that wait behind an active call count as ready."""


class Engine:
    """What one processor has under way.

    Memory: the events that are read ahead, and the positions of so many streams as are to be remembered.

    Args:
        rules: What it keeps to.
        chance: For the jitter of delays.
        is_patient: Whether a stream is parked only when its call has ended, however long it lasts.
        is_dense: Whether the indices of a stream follow each other without gaps, so that one that is missing is seen.

    Raises:
        BadParameter: all events are required of a source of whose streams nobody can tell what is missing.
    """

    def __init__(self, rules: Rules, chance: Random, *, is_dense: bool, is_patient: bool = False) -> None:
        check_kind("rules", rules, Rules, "Rules(…)")
        if rules.require_all and not is_dense:
            allowed = "False of a source whose indices have gaps: what is missing cannot be told from what never was"
            raise BadParameter(parameter="require_all", value=True, allowed=allowed)
        self.rules = rules
        self.is_dense = is_dense
        self.busy = Busy()
        self.parking = Required(self._ended) if rules.require_all else Parking(self._ended)
        """The streams that are set aside."""
        self.latency: dict[str, Latency] = {}
        """What calls have taken, by what has come of them: `ok`, or the tag of an outcome or a failure."""
        self.stats = Stats()
        """What handlers have counted, observed and set."""
        self.handled = 0
        """How many events are done that were with handlers."""
        self.repeats = 0
        """How many events were not taken in, since they had been before."""
        self._chance, self._is_patient = chance, is_patient
        self._tranches: dict[str, Tranche] = {}
        self._streams: dict[str, Stream] = {}
        self._ready = Ready()
        self._ends: dict[str, int] = {}
        """Behind what was parked of dense streams and is no more, while there is more of them in other tranches."""
        self._rested = 0
        """How often streams have come to rest."""
        self._batches = 0

    @property
    def counts(self) -> Counter[str]:
        """What handlers have counted."""
        return self.stats.counts

    def open(
        self, tranche: str, position: Position, ahead: Mapping[str, int] | None = None, *, is_exact: bool = True
    ) -> None:
        """Begin with a tranche at *position*.

        Args:
            tranche: Its name.
            position: All before it is done.
            ahead: Up to which index streams are done beyond it; None: nobody keeps that. Else `ahead` and `foresee`
                say what is to be kept.
            is_exact: Whether that is of all that are done with anything; else of those alone of which something was
                parked and is no more: what was dropped is never handled, whenever it comes.
        """
        most, events = self.rules.batches_ahead, self.rules.events_ahead
        self._tranches[tranche] = Tranche(
            tranche, position, batches_max=most, events_max=events, ahead=ahead, is_exact=is_exact
        )
        if ahead and self.is_dense:  # Then indices are those of the streams, wherever these go on.
            for stream, index in ahead.items():
                if stream not in self.parking.streams:
                    self._at(stream, tranche).move(index)

    def close(self, tranche: str) -> None:
        """Hand out nothing of a tranche any more. Calls that go on may still move its position."""
        self._tranches[tranche].is_closed = True

    def forget(self, tranche: str) -> None:
        """Forget a tranche, with all that was read of it and is not done, and what is parked of it, which is kept.

        What its streams have in other tranches goes on without it.
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
        """Take in what was read of a tranche, and let it be handed out as the rules have it.

        Raises:
            BadParameter: an event has an index below 0, or that nobody can keep. No position passes its batch.
        """
        tranche = self._tranches.get(batch.tranche)
        if tranche is None or tranche.is_closed:
            return  # It was given up while it was being read.
        running = tranche.begin(self._batches, batch)
        self._batches += 1
        streams, parked, is_sparse = self._streams, self.parking.streams, not self.is_dense
        active, ahead, add = self.busy.active, tranche.ahead, self._ready.add
        waits = self.rules.require_all
        unseen = ahead.unseen if ahead is not None else None
        running.missing += 1  # Until all is taken in: no position passes what is refused.
        for item in batch.items:
            name, index = item.stream, item.index
            if not 0 <= index < INDEX_END:
                raise index_unfit(item, tranche.name)
            if unseen and name in unseen and ahead is not None and ahead.is_repeat(item, running):
                self.repeats += events_of(item)
                continue
            if name in parked and not ((stream := streams.get(name)) and stream.is_held_of(tranche)):
                self.parking.wait(item, tranche.name, running.start)
                continue
            stream = streams.get(name)
            if stream is None or (is_sparse and stream.tranche is not tranche and stream.is_idle):
                stream = streams[name] = Stream(name, tranche)
                stream.call = active.get(name)  # One that was given up may still go on.
            elif is_sparse and stream.tranche is not tranche:
                stream.wait(Later(item, tranche, running))
                continue
            end = stream.end
            if index >= end >= stream.write:  # As `take_in` does, here without a call: nearly all come so.
                stream.is_gapped |= index > end
                stream.queue.append(item)
                stream.end = end = item.next
                if (wants := stream.wants) and wants[-1].running is running:
                    wants[-1].next = end
                else:
                    wants.append(BatchRequirement(end, running, tranche, index))
                    running.missing += 1
            elif not stream.take_in(item, tranche, running):
                self.repeats += events_of(item)
                continue
            if not stream.is_listed and stream.call is None:
                self._list(stream) if waits else add(stream)
        running.missing -= 1
        self._ready.wake(now)
        tranche.advance()

    def take(self, count: int, now: float) -> list[Call]:
        """Return up to *count* calls to be made now; how many go on at once, is for the runner to see to."""
        concurrency, busy, ready = self.rules.concurrency, self.busy, self._ready
        ready.wake(now)
        calls: list[Call] = []
        while len(calls) < count:
            stream = ready.next(len(busy.troubled_calls), concurrency)
            if stream is None:
                break
            if stream.queue and not stream.tranche.is_closed:
                calls.append(self._call(stream, now))
            elif self._streams.get(stream.name) is stream and not stream.tranche.is_closed:
                self._rest(stream)  # Else another has taken its place meanwhile, or its tranche is given up.
        return calls

    def settle(self, call: Call, result: Outcome | Failure, now: float, took: float) -> None:
        """Take note of what has come of a call, which took so many seconds.

        Raises:
            HandlerFailed: it has failed as often as it may, and that is to stop the processor. Its cause is what the
                handler has raised, where that is known.
        """
        self._measure(result, took)
        stream = self._streams.get(call.stream)
        if stream is None or call.given_up is not None:
            self._end_given_up(call, stream)
            return
        stream.call = None
        if isinstance(result, Failure):
            self.busy.failed(call, result)
            stream.put_back(call.events)
            if not call.is_overdue:
                stream.attempts += 1
            self._fail(stream, call, result, now)
        else:
            self._succeed(stream, call, result, now)

    def give_back(self, call: Call) -> None:
        """Take back a call that was not made: its stream can be handed out again, as if nothing had been."""
        stream = self._streams.get(call.stream)
        if stream is None or call.given_up is not None:
            self._end_given_up(call, stream)
            return
        stream.call = None
        self.busy.end(call)
        stream.put_back(call.events)
        self._list(stream)

    def overdue(self, now: float) -> list[Call]:
        """Return the calls that have just become overdue: they count as failed, though they go on.

        Their streams are handed out again when they have ended: `settle` them then.

        Raises:
            HandlerFailed: one has failed as often as it may by that, and is to stop the processor.
        """
        most = self.rules.timeout
        if most is None:
            return []
        late = [call for call in self.busy.active.values() if not call.is_overdue and now - call.called > most]
        failure = timed_out(most)
        for call in late:
            if call.given_up is not None:
                continue
            stream = self._streams[call.stream]
            call.is_overdue = True
            stream.attempts += 1
            self.busy.overdue(call, failure)
            parks = self.rules.exhausted == "park"
            if call.is_below(stream.write):
                self._forgive(stream)
            elif self._is_exhausted(stream) and not (self._is_patient and parks):
                if parks:  # Else what the call still comes to counts as ever.
                    call.given_up = stream.tranche.name
                    stream.put_back(call.events)
                self._give_up(stream, call, failure)
        return late

    @property
    def due(self) -> float | None:
        """When there is something to hand out again, if nothing comes before; None: not by the time alone."""
        return self._ready.due

    def check_health(self, now: float) -> None:
        """Raise ProcessorUnhealthy where streams have made no progress for longer than the rules bear."""
        self.rules.health.check(self.busy, now)

    def go_on(self, stream: str, index: int) -> None:
        """Have a stream go on at *index*: what is below it will never come, or need not be handled."""
        found = self._at(stream, next(iter(self._tranches)))  # Dense streams' indices are not a tranche's.
        if stream in self.parking.streams:
            self.parking.handled(stream, found.tranche.name, index, 0)
        self._met(found.move(index))
        self._list_again(found)

    # What is parked, and read again

    def known(self) -> set[str]:
        """Return the streams of which something is not done, or remembered: what comes of them has to wait its turn."""
        known = {*self._streams, *self.parking.streams}
        return known.union(*(tranche.unseen for tranche in self._tranches.values()))

    def wanted(self, stream: str, tranche: str) -> int:
        """Return which index of a stream is wanted next in a tranche: what is below is handled, or was skipped."""
        found, passed = self._streams.get(stream), self._tranches[tranche].unseen.get(stream, 0)
        return max(found.write, passed) if found is not None and found.tranche.name == tranche else passed

    def begun(self, stream: str) -> SourceItem | None:
        """Return what waits of a stream and is done in part, as only what stands for several events can be."""
        found = self._streams.get(stream)
        first = found.queue[0] if found is not None and found.queue else None
        return first if found is not None and first is not None and first.index < found.write else None

    def replays(self) -> list[Parked]:
        """Return what is to be read again of streams that were parked, and are to be tried again."""
        return [replay for replay in self.parking.replays() if self._is_in_want(replay.stream)]

    def replaying(self, tranche: str) -> int:
        """Return how many events of a tranche are held that were read again."""
        retried = (self._streams.get(stream) for stream in self.parking.retried)
        return sum(stream.held for stream in retried if stream is not None and stream.tranche.name == tranche)

    def replay_all(self, replays: Sequence[Parked], page: Batch | Failure, now: float) -> None:
        """Take in a page that was read again for several streams, from where all of *replays* say on; or why not."""
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
        """Take in what was read again of one stream, from where *replay* says on; or why it cannot be read."""
        if isinstance(batch, Failure):  # It is parked as before.
            self.parking.fail(replay, batch)
            return
        name = replay.stream
        stream = self._streams.get(name)
        is_elsewhere = stream is not None and not self.is_dense and stream.tranche.name != batch.tranche
        if is_elsewhere and stream is not None and not stream.is_idle:
            return  # It has had events since that was asked for: they are done before, and the page is read again.
        items = self.parking.taken(replay, batch)
        if not items:
            return
        tranche = self._tranches[batch.tranche]
        if stream is None or is_elsewhere:
            stream = self._streams[name] = Stream(name, tranche)
            stream.call = self.busy.active.get(name)  # One that was given up may still go on.
            stream.write = self.parking.beginning(name, items)
        elif stream.is_idle:
            stream.tranche = tranche
        stream.take_again(items)
        if stream.is_idle:  # It was to go on behind all of them.
            self._has_caught_up(stream)
        elif stream.call is None and not stream.is_listed and not self._is_in_want(name):
            self._ready.add(stream)
        self._ready.wake(now)

    def retry(self, stream: str) -> None:
        """Have a stream tried again, if it is parked: see `replays`."""
        self.parking.retry(stream)

    def drop(self, stream: str) -> None:
        """Forget what is parked of a stream: nobody handles it any more, only what comes from now on."""
        found = self._streams.get(stream)
        if found is not None and not found.wants:
            found.move(found.end)
            self.busy.forget(stream)
            if found.call is None:
                del self._streams[stream]
        self.parking.drop(stream)

    # How far it is, and what another process would have to begin with

    def tranche_of(self, stream: str) -> str:
        """Return where the events come from that a stream has now."""
        return self._streams[stream].tranche.name

    def tranches_of(self, call: Call) -> Collection[str]:
        """Return where the events of a call come from."""
        stream = self._streams.get(call.stream)
        if call.given_up is not None or stream is None:
            return () if call.given_up is None else (call.given_up,)
        return {stream.tranche.name, *(want.tranche.name for want in stream.wants if want.first < call.next)}

    def missing(self) -> dict[str, tuple[int, int]]:
        """Return the streams that wait for an index, which that is, and the first one that there is behind it."""
        if not self.rules.require_all:
            return {}
        return {
            name: (stream.write, stream.queue[0].index)
            for name, stream in self._streams.items()
            if stream.queue and stream.call is None and stream.queue[0].index > stream.write
            if not self.parking.is_searched(name)
        }

    def is_active(self, tranche: str) -> bool:
        """Tell whether calls of a tranche go on."""
        return any(tranche in self.tranches_of(call) for call in self.busy.active.values())

    def tranche(self, name: str) -> Tranche:
        """Return how far a tranche is."""
        return self._tranches[name]

    def room(self, tranche: str) -> int:
        """Return how many events of *tranche* may be read now; 0: none, until others are done."""
        return self._tranches[tranche].room

    @property
    def is_idle(self) -> bool:
        """Whether all that was handed in is done."""
        return not any(tranche.batches for tranche in self._tranches.values())

    def positions(self) -> dict[str, Position]:
        """Return from where each tranche is to be resumed: all before it is done."""
        return {name: tranche.completed for name, tranche in self._tranches.items()}

    def ahead(self) -> dict[Place, int | None]:
        """Return which streams are ahead of their tranche's position, and up to where; None: they are no more.

        That is what has changed since it was `kept`.
        """
        return {
            (stream, name): index
            for name, tranche in self._tranches.items()
            if tranche.ahead is not None
            for stream, index in tranche.ahead.changes().items()
        }

    def kept_ahead(self, changes: Mapping[Place, int | None]) -> None:
        """Take note that *changes* of what is `ahead` are kept."""
        for (stream, name), index in changes.items():
            tranche = self._tranches.get(name)
            if tranche is not None and tranche.ahead is not None:
                tranche.ahead.kept(stream, index)

    def foresee(self, results: Iterable[tuple[Call, Outcome | Failure]]) -> Foreseen:
        """Return what will have to be kept once calls are settled with these *results*."""
        met: Counter[Running] = Counter()
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
            met.update(want.running for want in stream.wants if want.next <= to)
            reached += [(stream.name, to, want) for want in stream.begun(to)]
            if self.parking.is_read(call.stream):
                foreseen = self.parking.handled_if(call.stream, stream.tranche.name, to, call.below(to))
                parked |= {each.place: each for each in foreseen}
        ended = {name: tranche.ended_if(met) for name, tranche in self._tranches.items()}
        return Foreseen(
            {name: each[-1].end if each else self._tranches[name].completed for name, each in ended.items()},
            self._ahead_if(reached, ended),
            parked,
            touched,
            gone,
        )

    def census(self) -> dict[str, StateCount]:
        """Return the number of streams in each state.

        A handler works on an `active` stream and could begin with a `ready` one. A `waiting` one waits for its time, a
        `gapped` one for a missing index. A `parked` one is set aside, a `synced` one has nothing to do. The time that
        this takes grows with the number of streams that have events to handle.
        """
        ready, streams = self._ready, self._streams
        active = self.busy.active
        calling = sum(_count(call.events) for call in active.values())
        behind = sum(_count(streams[name].queue) for name in active if name in streams)
        could = sum(_count(each.queue) for line in (ready._urgent, ready._healthy, ready._troubled) for each in line)
        waiting = sum(_count(each.queue) for _, _, each in ready._held)
        gapped = self.missing()
        spans = [span for found in self.parking.streams.values() for span in found.values()]
        found = {
            "active": StateCount(len(active), calling),
            "ready": StateCount(len(ready), behind + could),
            "waiting": StateCount(len(ready._held), waiting),
            "gapped": StateCount(len(gapped), sum(_count(streams[name].queue) for name in gapped)),
            "parked": StateCount(len(self.parking.streams), sum(span.events for span in spans)),
        }
        others = sum(each.streams for state, each in found.items() if state != "parked")
        return {**found, "synced": StateCount(max(0, len(streams) - others), 0)}

    # Calls

    def _call(self, stream: Stream, now: float) -> Call:
        events = stream.head(is_dense=self.is_dense, events_max=self.rules.events_per_call)
        call = stream.call = Call(stream.name, events, stream.attempts + 1, now, now)
        self.busy.begin(call)
        return call

    def _end_given_up(self, call: Call, stream: Stream | None) -> None:
        """Take note that a call has ended whose stream was parked meanwhile, and may have others by now."""
        self.busy.end(call)
        if stream is not None and stream.call is call:
            stream.call = None
            self._list_again(stream)

    def _succeed(self, stream: Stream, call: Call, outcome: Outcome, now: float) -> None:
        end = call.next
        to = end if outcome.next is None else outcome.next
        is_passed = call.is_below(stream.write)
        has_progressed = is_passed or to > call.index
        self.busy.went_well(call, has_progressed=has_progressed, tag=outcome.tag)
        if outcome.counts or outcome.stats is not None:
            self.stats.merge(outcome.counts, outcome.stats)
        stream.attempts = 0
        stream.has_stalled = not has_progressed
        for want in stream.begun(to):
            want.tranche.reach(stream.name, to, want.running)
        if has_progressed:
            self._met(stream.move(to))
        if to < end:
            stream.put_back(call.events)
        handled = call.below(to)
        self.handled += handled
        if self.parking.is_read(stream.name):
            self.parking.handled(stream.name, stream.tranche.name, to, handled)
        if not stream.queue or is_passed or (has_progressed and outcome.after_seconds is None):
            self._list(stream)
        elif outcome.after_seconds is not None:
            self._ready.hold(stream, now + outcome.after_seconds)
        else:
            self._ready.hold(stream, now + self._delay(self.busy.stalled[stream.name].attempts))

    def _fail(self, stream: Stream, call: Call, failure: Failure, now: float) -> None:
        if call.is_below(stream.write):
            self._forgive(stream)
            self._list(stream)
        elif self._is_exhausted(stream):
            self._give_up(stream, call, failure)
        else:
            self._ready.hold(stream, now + self._delay(stream.attempts))

    def _forgive(self, stream: Stream) -> None:
        """Forget what has failed of a stream: somebody has had it go on behind that."""
        self.busy.forget(stream.name)
        stream.attempts = 0

    def _delay(self, attempts: int) -> float:
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
        """Set a stream aside with all that waits: its batches wait for it no longer."""
        parking = self.parking
        for parked in stream.set_aside(call, failure):
            parking.park(parked)
        self.busy.forget(stream.name)
        self._met(stream.move(stream.end))
        del self._streams[stream.name]
        for later in stream.later:
            parking.wait(later.item, later.tranche.name, later.running.start)
        self._met(stream.later)

    def _list(self, stream: Stream) -> None:
        """Have a stream that is with no handler stand among the ready ones, if there is anything to hand out."""
        queue = stream.queue
        if not queue:
            self._rest(stream)
        elif not self.rules.require_all or queue[0].index <= stream.write:
            self._ready.add(stream)

    def _list_again(self, stream: Stream) -> None:
        if stream.call is None and not stream.is_listed:
            self._list(stream)

    def _met(self, wants: Sequence[BatchRequirement | Later]) -> None:
        """Take note that the batches of *wants* wait for so many things less."""
        for want in wants:
            running = want.running
            running.missing -= 1
            if running.missing == 0 and running.number == want.tranche.oldest:
                want.tranche.advance()

    def _rest(self, stream: Stream) -> None:
        """Forget a stream that has nothing to do, unless repeats are to be known by where it is."""
        stream.attempts = 0
        if stream.later:
            self._move_on(stream)
            return
        if self.parking.is_read(stream.name) and not self._has_caught_up(stream):
            return
        if stream.write <= stream.end and not self.is_dense:
            del self._streams[stream.name]
            return
        stream.rested = self._rested = self._rested + 1
        if self._rested % (self.rules.remember // 2 + 1) == 0:
            self._purge()

    def _move_on(self, stream: Stream) -> None:
        """Go on with what has come of a stream from another tranche."""
        followed = self._streams[stream.name] = stream.followed()
        self._met([later for later in stream.later if later.tranche is followed.tranche])
        self._list(followed)

    def _purge(self) -> None:
        """Of more streams that have nothing to do than are to be remembered, forget those that rest longest.

        Where all events are required, none is forgotten: what is missing could not be told any more. Nor is one that
        skips what has not come yet.
        """
        most = self.rules.remember
        if self.rules.require_all or len(self._streams) <= most:
            return
        idle = [stream for stream in self._streams.values() if stream.is_idle and stream.write <= stream.end]
        for stream in sorted(idle, key=attrgetter("rested"))[: max(0, len(idle) - most)]:
            del self._streams[stream.name]

    def _measure(self, result: Outcome | Failure, took: float) -> None:
        kind = result.tag or "ok"
        latency = self.latency.get(kind) or self.latency.setdefault(counted_as(kind, self.latency), Latency())
        latency.add(took)

    # What is parked

    def _is_in_want(self, stream: str) -> bool:
        """Tell whether nothing is held of a stream that could be handed out now, or be with a handler."""
        if stream in self.busy.active:  # Who was parked while a call went on, has to wait for its end.
            return False
        found = self._streams.get(stream)
        if found is None or found.is_idle:
            return True
        # Else what is held is to be done before; where all is required, that may wait for what is to be read again.
        return self.rules.require_all and bool(found.queue) and found.queue[0].index > found.write

    def _at(self, stream: str, tranche: str) -> Stream:
        found = self._streams.get(stream)
        if found is None:
            found = self._streams[stream] = Stream(stream, self._tranches[tranche])
            found.call = self.busy.active.get(stream)
        return found

    def _has_caught_up(self, stream: Stream) -> bool:
        """Take note that what was read again of a stream is done; tell whether it is as all others are from now on."""
        name, tranche = stream.name, stream.tranche.name
        if not self.is_dense:  # More of it may have come than was read again.
            stream.end = max(stream.end, self.parking.streams[name][tranche].next)
        del self._streams[name]
        self.parking.page_done(name, tranche)
        if not self.is_dense and name not in self.parking.streams:
            self._streams[name] = stream  # It may skip what has not come yet.
        return name in self._streams

    def _unload(self, tranche: str) -> None:
        """Let go of what is parked of a tranche that is given up."""
        self.parking.unload(tranche)
        self._ends = {stream: end for stream, end in self._ends.items() if stream in self.parking.streams}

    def _ended(self, parked: Parked) -> None:
        """Have nothing come again of what was parked, though its tranche's position may lie before it."""
        tranche = self._tranches.get(parked.tranche)
        if tranche is None:
            return
        tranche.pass_over(parked.stream, parked.next)
        if self.is_dense:
            self._go_on_behind(parked)

    def _go_on_behind(self, parked: Parked) -> None:
        """Have a stream go on behind what was parked of it, once nothing is: what is missing there is seen by that."""
        name = parked.stream
        end = max(parked.index, parked.next, self._ends.pop(name, 0))
        if name in self.parking.streams:
            self._ends[name] = end
            return
        found = self._at(name, parked.tranche)
        if not found.wants:  # Else it goes on with what it has, since others had parked that.
            found.move(end)
            found.end = max(found.end, end)

    def _ahead_if(
        self, reached: Iterable[tuple[str, int, BatchRequirement]], ended: Mapping[str, Sequence[Running]]
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
            for stream, index in tranche.ahead.changes_if(by_tranche[name], ended[name]).items()
        }


def _count(items: Sequence[SourceItem]) -> int:
    """Return how many events *items* stand for. All of a processor are events, or all are spans."""
    return sum(map(events_of, items)) if items and hasattr(items[0], "events") else len(items)
