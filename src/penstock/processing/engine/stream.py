"""Streams: their waiting events, progress and calls; the queue of ready streams; and the streams in trouble.

A stream *fails* if its last call has raised or is overdue. It *stalls* if calls return without an error and without
progress.

Source: the stream states and busy metrics of Propulsion, https://github.com/jet/propulsion; docs/propulsion.md compares
the two.
"""

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from penstock.errors import ProcessorUnhealthy
from penstock.processing.engine.parking import Parked
from penstock.processing.engine.rules import Health
from penstock.processing.engine.tranche import SourceItem, Tranche, UnfinishedBatch, count_events
from penstock.processing.outcomes import Failure
from penstock.processing.stats import limit_tag


class Call(msgspec.Struct, gc=False, eq=False):
    """A span of one stream that a handler is called with.

    The stream gets no other call until this one is settled.
    """

    stream: str
    events: Sequence[SourceItem]
    attempt: int
    """Number of consecutive attempts for its first event, from 1 on."""
    began: float
    called: float = 0.0
    """Time at which its handler was called; infinite while it waits for a thread."""
    is_overdue: bool = False
    """True if it counts as failed since it lasts too long."""

    given_up: str | None = None
    """The tranche of its events, if its stream was parked while the call went on."""

    index: int = 0
    """The index of its first event, even if the handler changes that event."""
    next: int = 0
    """The index after its last event, likewise."""

    def __post_init__(self) -> None:
        events = self.events
        self.index, self.next = events[0].index, events[-1].next

    def count_below(self, index: int) -> int:
        """Return the number of its events below *index*."""
        return len(self.events) if index >= self.next else sum(item.next <= index for item in self.events)

    def is_below(self, index: int) -> bool:
        """Return whether all its events lie below *index*: its result does not matter to a stream that is there."""
        return self.next <= index

    def __repr__(self) -> str:
        return f"Call({self.stream!r}, {self.index} to {self.next}, attempt={self.attempt})"


_index: Final[Callable[[SourceItem], int]] = attrgetter("index")


class BatchRequirement(msgspec.Struct, gc=False, eq=False):
    """A requirement of a batch: it is not done before a stream is handled up to an index."""

    next: int
    running: UnfinishedBatch
    tranche: Tranche
    first: int
    """The index of the stream's first event in the batch that was not handled when it was read."""


_next: Final[Callable[[BatchRequirement], int]] = attrgetter("next")
_number: Final[Callable[[UnfinishedBatch], int]] = attrgetter("number")


class DeferredItem(NamedTuple):
    """An event that waits for its stream's earlier events, which lie in another tranche."""

    item: SourceItem
    tranche: Tranche
    running: UnfinishedBatch


class Stream:
    """One stream: its waiting events, and the batches that wait for them."""

    __slots__ = (
        "attempts",
        "call",
        "end",
        "has_stalled",
        "is_gapped",
        "is_listed",
        "later",
        "name",
        "queue",
        "requirements",
        "rested",
        "tranche",
        "write",
    )

    def __init__(self, name: str, tranche: Tranche) -> None:
        self.name = name
        self.tranche = tranche
        """The tranche of its events, if its indices are those of a tranche."""
        self.later: list[DeferredItem] = []
        """Events of the same stream in another tranche with unrelated indices: they are handled after the others."""
        self.write = 0
        """The next index to handle: lower events are handled, or need not be."""
        self.end = 0
        """The index after the last event that was added; less than `write` if the next events are to be skipped."""
        self.queue: list[SourceItem] = []
        """The waiting events, by index, without those of the active call."""
        self.requirements: list[BatchRequirement] = []
        """The requirements of batches, by index."""
        self.call: Call | None = None
        self.attempts = 0
        """Number of consecutive failed attempts for its first event."""
        self.has_stalled = False
        """True if its last call made no progress, without an error."""
        self.is_gapped = False
        """True if an index may be missing among the waiting events."""
        self.rested = 0
        """Sequence number of the last time that it became idle."""
        self.is_listed = False
        """True if it is in `ReadyQueue`: ready, or waiting for its time."""

    @property
    def is_idle(self) -> bool:
        """True if it has no unfinished events."""
        return self.call is None and not self.queue and not self.later

    @property
    def held_count(self) -> int:
        """Number of its events in memory: the waiting ones, and those of the active call."""
        return len(self.queue) + (0 if self.call is None else len(self.call.events))

    def has_events_of(self, tranche: Tranche) -> bool:
        """Return whether a batch of a tranche waits for events of this stream: newer events queue behind these."""
        return any(want.tranche is tranche for want in self.requirements) or any(
            each.tranche is tranche for each in self.later
        )

    def defer(self, later: DeferredItem) -> None:
        """Queue an event of another tranche; its batch waits for it."""
        self.later.append(later)
        later.running.missing += 1

    def make_successor(self) -> "Stream":
        """Return the stream that replaces it once it is done, with the later events of one other tranche."""
        followed = Stream(self.name, self.later[0].tranche)
        for later in self.later:
            if later.tranche is followed.tranche:
                followed.take_in(later.item, later.tranche, later.running)
            else:
                followed.later.append(later)
        return followed

    def take_in(self, item: SourceItem, tranche: Tranche, running: UnfinishedBatch) -> bool:
        """Add an event of a batch; return whether it was new. A repeat changes nothing."""
        end = item.next
        if end <= self.write:
            return False
        is_new = item.index >= self.end
        if is_new:
            if item.index > self.end:
                self.is_gapped = True
            self.queue.append(item)
            self.end = end
        elif not self._has(item):
            insort(self.queue, item, key=_index)
            self.is_gapped = is_new = True
        self._require(item.index, end, tranche, running)
        return is_new

    def take_again(self, items: Sequence[SourceItem]) -> None:
        """Add events that were read again. No batch waits for them."""
        for item in items:
            if item.next > self.write and not self._has(item):
                insort(self.queue, item, key=_index)
                self.end = max(self.end, item.next)
        self.is_gapped = True

    def take_head(self, *, is_dense: bool, events_max: int) -> Sequence[SourceItem]:
        """Remove and return the next events, up to *events_max*; if indices are dense, only up to the next gap.

        The result is immutable: the handler receives it, and settling the call needs all its events.
        """
        queue = self.queue
        count = min(len(queue), events_max)
        if is_dense and self.is_gapped:
            count = next((at for at in range(1, count) if queue[at].index > queue[at - 1].next), count)
        if count == len(queue):
            self.queue = []
            self.is_gapped = False
            return tuple(queue)
        self.queue = queue[count:]
        return tuple(queue[:count])

    def leave(self, tranche: Tranche) -> bool:
        """Forget the events of a tranche that is given up; return whether there were any.

        The stream goes on with its events of other tranches; if it has none, its `tranche` stays.
        """
        later = [each for each in self.later if each.tranche is not tranche]
        wants = [each for each in self.requirements if each.tranche is not tranche]
        if self.tranche is not tranche and len(later) == len(self.later) and len(wants) == len(self.requirements):
            return False
        if len(wants) < len(self.requirements):
            self.queue = [item for item in self.queue if any(each.first <= item.index < each.next for each in wants)]
            self.is_gapped = True
        self.later, self.requirements = later, wants
        if self.tranche is tranche and wants:
            self.tranche = wants[0].tranche
        return True

    def set_aside(self, call: Call, failure: Failure) -> list[Parked]:
        """Return the spans to park, since the first event of *call* could not be handled.

        There is one span for each tranche of its events.
        """
        by_tranche: dict[str, list[BatchRequirement]] = {}
        for want in self.requirements:
            by_tranche.setdefault(want.tranche.name, []).append(want)
        if len(by_tranche) > 1:
            return [self._make_span(wants, failure) for wants in by_tranche.values()]
        tranche, since = self.tranche.name, self.tranche.completed
        if self.requirements:  # Else it was parked before and tried again: the record has its position.
            oldest = min((want.running for want in self.requirements), key=_number)
            tranche, since = self.requirements[0].tranche.name, oldest.start
        end, events = self.queue[-1].next, sum(map(count_events, self.queue))
        return [Parked(self.name, tranche, call.index, end, events, self.attempts, failure.tag, failure.detail, since)]

    def put_back(self, events: Sequence[SourceItem]) -> None:
        """Put *events* back before the waiting ones, without those that no longer need to be handled."""
        left = [item for item in events if item.next > self.write] if self.write > events[0].index else events
        self.queue = [*left, *self.queue]
        self.is_gapped = True

    def move(self, to: int) -> list[BatchRequirement]:
        """Advance the next index to *to*, never backwards; return the requirements that this meets."""
        if to <= self.write:
            return []
        self.write = to
        queue = self.queue
        if queue and queue[0].next <= to:
            self.queue = [item for item in queue if item.next > to]
        wants = self.requirements
        met = 0
        for want in wants:
            if want.next > to:
                break
            met += 1
        self.requirements = wants[met:]
        return wants[:met]

    def find_progressing(self, to: int) -> list[BatchRequirement]:
        """Return the requirements with progress once it is done up to *to*, if streams that are ahead are stored."""
        if not self.tranche.is_exact or to <= self.write:
            return []
        return [want for want in self.requirements if want.first < to]

    def _make_span(self, wants: Sequence[BatchRequirement], failure: Failure) -> Parked:
        """Return the span to park in the tranche of these *wants*."""
        first, end = max(self.write, min(want.first for want in wants)), wants[-1].next
        events = sum(
            count_events(item) for item in self.queue if any(each.first <= item.index < each.next for each in wants)
        )
        oldest = min((want.running for want in wants), key=_number)
        tag, detail, name = failure.tag, failure.detail, wants[0].tranche.name
        return Parked(self.name, name, first, end, events, self.attempts, tag, detail, oldest.start)

    def _has(self, item: SourceItem) -> bool:
        call = self.call
        return _contains(self.queue, item) or (
            call is not None and call.given_up is None and _contains(call.events, item)
        )

    def _require(self, first: int, end: int, tranche: Tranche, running: UnfinishedBatch) -> None:
        wants = self.requirements
        if not wants or wants[-1].next <= end:
            if wants and wants[-1].running is running:
                wants[-1].next = end
                return
            wants.append(BatchRequirement(end, running, tranche, first))
            running.missing += 1
        else:
            insort(wants, BatchRequirement(end, running, tranche, first), key=_next)
            running.missing += 1


def _contains(items: Sequence[SourceItem], item: SourceItem) -> bool:
    at = bisect_left(items, item.index, key=_index)
    return at < len(items) and items[at].index == item.index


TROUBLED_SHARE: Final = 0.25
"""Maximum share of troubled streams among the active calls while healthy ones wait; at least one call."""


class ReadyQueue:
    """The streams that are ready for a call, and those that wait for their time. Each is listed once.

    Streams that hold a position back come first, then the others in order of arrival, with troubled ones in between.
    Troubled streams have failed or made no progress. They get a limited share of the handlers, however many they are,
    so that healthy streams do not wait for them.
    """

    def __init__(self) -> None:
        self._urgent: deque[Stream] = deque()
        self._healthy: deque[Stream] = deque()
        self._troubled: deque[Stream] = deque()
        self._held: list[tuple[float, int, Stream]] = []
        self._count = 0
        self._was_troubled = False

    def __len__(self) -> int:
        """Return the number of ready streams, as of the last `wake`."""
        return len(self._urgent) + len(self._healthy) + len(self._troubled)

    @property
    def due(self) -> float | None:
        """Time at which the next waiting stream becomes ready; None: no stream waits."""
        return self._held[0][0] if self._held else None

    def add(self, stream: Stream) -> None:
        """Add a stream that has events to handle."""
        if not stream.is_listed:
            stream.is_listed = True
            self._enqueue(stream)

    def hold(self, stream: Stream, until: float) -> None:
        """Add a stream that must not be called before *until*."""
        stream.is_listed = True
        self._count += 1
        heappush(self._held, (until, self._count, stream))

    def wake(self, now: float) -> None:
        """Make the waiting streams ready whose time has come."""
        while self._held and self._held[0][0] <= now:
            self._enqueue(heappop(self._held)[2])

    def pop(self, troubled: int, concurrency: int) -> Stream | None:
        """Remove and return the next stream, given the active *troubled* calls and the maximum *concurrency*."""
        chosen, is_troubled = self._urgent or self._healthy, False
        if self._troubled:
            is_full = self._was_troubled or troubled >= max(1, int(concurrency * TROUBLED_SHARE))
            if not (chosen and is_full):
                chosen, is_troubled = self._troubled, True
        self._was_troubled = is_troubled
        if not chosen:
            return None
        stream = chosen.popleft()
        stream.is_listed = False
        return stream

    def _enqueue(self, stream: Stream) -> None:
        if stream.attempts or stream.has_stalled:
            self._troubled.append(stream)
        elif (wants := stream.requirements) and wants[0].running.number == wants[0].tranche.oldest:
            self._urgent.append(stream)
        else:
            self._healthy.append(stream)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A stream that makes no progress, and the time since when."""

    stream: str
    index: int
    """Index of the first event that is not done."""
    since: float
    """Time at which the first of the unsuccessful calls began."""
    last: float
    """Time at which the last of them began."""
    attempts: int
    tag: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Figures:
    """Number of streams in one state, and their times in it."""

    streams: int
    attempts: int
    oldest_seconds: float
    newest_seconds: float


NONE: Final = Figures(0, 0, 0.0, 0.0)
NEWS_MAX: Final = 100


class BusyStreams:
    """Tracks the active calls, and the streams that fail or stall."""

    def __init__(self) -> None:
        self.active: dict[str, Call] = {}
        """The active calls by stream, in the order in which they began."""
        self.failing: dict[str, Trouble] = {}
        self.stalled: dict[str, Trouble] = {}
        self._by_turns: dict[str, Trouble] = {}
        """For streams in one of these states: their trouble in the other state since they last made progress."""
        self.troubled_calls: set[str] = set()
        """The streams of active calls that had failed or stalled before, and of those that are overdue."""
        self.overdue_calls: set[str] = set()
        self.failures: Counter[str] = Counter()
        """Number of failed calls by tag. An overdue call counts as failed, however it ends."""
        self.news: deque[Trouble] = deque(maxlen=NEWS_MAX)
        """The streams that began to fail last, until the reporter removes them."""

    def begin(self, call: Call) -> None:
        """Record that a call has begun."""
        self.active[call.stream] = call
        if call.stream in self.failing or call.stream in self.stalled:
            self.troubled_calls.add(call.stream)

    def mark_overdue(self, call: Call, failure: Failure) -> None:
        """Record that a call is overdue: it counts as failed while it still runs."""
        self.troubled_calls.add(call.stream)
        self.overdue_calls.add(call.stream)
        self._fail(call, failure)

    def fail(self, call: Call, failure: Failure) -> None:
        """Record that a call has failed."""
        self.end(call)
        if not call.is_overdue:
            self._fail(call, failure)

    def succeed(self, call: Call, *, has_progressed: bool, tag: str | None) -> None:
        """Record that a call has ended without an error."""
        self.end(call)
        if has_progressed:
            if self.failing or self.stalled:  # Else, as mostly, there is nothing to be forgotten.
                self.forget(call.stream)
        else:
            before = self._take_previous(call.stream, self.stalled, self.failing)
            self.stalled[call.stream] = _extend(before, call, tag, None)

    def end(self, call: Call) -> None:
        """Remove a call that has ended, with or without an error."""
        del self.active[call.stream]
        self.troubled_calls.discard(call.stream)
        self.overdue_calls.discard(call.stream)

    def forget(self, stream: str) -> None:
        """Remove a stream from the failing and stalled ones."""
        self.failing.pop(stream, None)
        self.stalled.pop(stream, None)
        self._by_turns.pop(stream, None)

    def measure(self, now: float) -> dict[str, Figures]:
        """Return how many streams are active, failing and stalled, and for how long."""
        begun = [call.began for call in self.active.values()]
        found = {"active": Figures(len(begun), len(begun), now - min(begun), now - max(begun)) if begun else NONE}
        for state, troubles in (("failing", self.failing), ("stalled", self.stalled)):
            if troubles:
                since = [trouble.since for trouble in troubles.values()]
                attempts = sum(trouble.attempts for trouble in troubles.values())
                found[state] = Figures(len(since), attempts, now - min(since), now - max(since))
            else:
                found[state] = NONE
        return found

    def check(self, health: Health, now: float) -> None:
        """Check the failing and stalled streams against the limits of *health*.

        Raises:
            ProcessorUnhealthy: streams fail or stall for longer than the limits; the error names all of them.
        """
        failing = _describe_older("failing", self.failing.values(), now, health.failing_seconds_max)
        stalled = _describe_older("stalled", self.stalled.values(), now, health.stalled_seconds_max)
        if failing or stalled:
            raise ProcessorUnhealthy(streams=failing + stalled)

    def _fail(self, call: Call, failure: Failure) -> None:
        self.failures[limit_tag(failure.tag, self.failures)] += 1
        is_new = call.stream not in self.failing
        before = self._take_previous(call.stream, self.failing, self.stalled)
        trouble = self.failing[call.stream] = _extend(before, call, failure.tag, failure.detail)
        if is_new:
            self.news.append(trouble)

    def _take_previous(self, stream: str, state: dict[str, Trouble], other: dict[str, Trouble]) -> Trouble | None:
        """Move a stream from the *other* state to *state*; return its previous trouble in *state*."""
        left = other.pop(stream, None)
        if left is None:
            return state.get(stream)
        before = self._by_turns.pop(stream, None)
        self._by_turns[stream] = left
        return before


def _extend(before: Trouble | None, call: Call, tag: str | None, detail: str | None) -> Trouble:
    since, attempts = (call.began, 0) if before is None else (before.since, before.attempts)
    return Trouble(call.stream, call.index, since, call.began, attempts + 1, tag, detail)


def _describe_older(state: str, troubles: Iterable[Trouble], now: float, most: float | None) -> list[str]:
    """Return a text about each stream that has been in trouble for more than *most* seconds; None: no limit."""
    if most is None:
        return []
    return [
        f"{each.stream} {state} at {each.index} for {now - each.since:.0f} s, {each.attempts} attempts"
        + (f", {each.tag}: {each.detail}" if each.detail else "")
        for each in troubles
        if now - each.since > most
    ]
