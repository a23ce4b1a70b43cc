"""A stream that waits: its events, how far it is handled, its call, and its place among those that are ready.

Source: the stream states of Propulsion, https://github.com/jet/propulsion; docs/propulsion.md compares the two.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from penstock.processing.engine.item import SourceItem, events_of
from penstock.processing.engine.parking import Parked
from penstock.processing.engine.tranche import Running, Tranche
from penstock.processing.outcomes import Failure


class Call(msgspec.Struct, gc=False, eq=False):
    """A run of one stream's events, which a handler is called with.

    As long as it is not settled, its stream is not handed out again.
    """

    stream: str
    events: Sequence[SourceItem]
    attempt: int
    """From 1 on: how often in a row it was tried to get its first event done."""
    began: float
    called: float = 0.0
    """When its handler was called; infinite while it waits for a thread."""
    is_overdue: bool = False
    """Whether it has been told to fail since it lasts too long."""

    given_up: str | None = None
    """Of a stream that was parked while it went on: the tranche that its events lie in."""

    index: int = 0
    """The index of its first event, whatever its handler does to that."""
    next: int = 0
    """The index behind its last event, likewise."""

    def __post_init__(self) -> None:
        events = self.events
        self.index, self.next = events[0].index, events[-1].next

    def below(self, index: int) -> int:
        """Return how many of its events lie below *index*."""
        return len(self.events) if index >= self.next else sum(item.next <= index for item in self.events)

    def is_below(self, index: int) -> bool:
        """Tell whether nothing of it is at *index* or behind: its stream goes on there, whatever comes of it."""
        return self.next <= index

    def __repr__(self) -> str:
        return f"Call({self.stream!r}, {self.index} to {self.next}, attempt={self.attempt})"


_index: Final[Callable[[SourceItem], int]] = attrgetter("index")


class BatchRequirement(msgspec.Struct, gc=False, eq=False):
    """That a batch is not done before a stream is handled up to an index."""

    next: int
    running: Running
    tranche: Tranche
    first: int
    """The index of its first event that was not handled when it came."""


_next: Final[Callable[[BatchRequirement], int]] = attrgetter("next")
_number: Final[Callable[[Running], int]] = attrgetter("number")


class Later(NamedTuple):
    """An event that waits until those of its stream are done that lie in another tranche."""

    item: SourceItem
    tranche: Tranche
    running: Running


class Stream:
    """One stream: the events that wait, and what waits for them."""

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
        "rested",
        "tranche",
        "wants",
        "write",
    )

    def __init__(self, name: str, tranche: Tranche) -> None:
        self.name = name
        self.tranche = tranche
        """Where its events come from, if its indices are those of a tranche."""
        self.later: list[Later] = []
        """Events of the same name from another tranche, whose indices have nothing to do with these: they come then."""
        self.write = 0
        """The index wanted next: what is below it is handled, or need not be."""
        self.end = 0
        """Behind the last event that was taken in; less than `write` where what comes next is to be skipped."""
        self.queue: list[SourceItem] = []
        """The events that wait, by index; those that are with a handler are not among them."""
        self.wants: list[BatchRequirement] = []
        """By index."""
        self.call: Call | None = None
        self.attempts = 0
        """How often in a row its first event was tried in vain."""
        self.has_stalled = False
        """Whether its last call has got nowhere, without an error."""
        self.is_gapped = False
        """Whether an index may be missing among the events that wait."""
        self.rested = 0
        """A number that is larger the later it had nothing to do."""
        self.is_listed = False
        """Whether it stands among those that are ready, or that wait for their time."""

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing of it that is not done."""
        return self.call is None and not self.queue and not self.later

    @property
    def held(self) -> int:
        """How many of its events are held: those that wait, and those that are with a handler."""
        return len(self.queue) + (0 if self.call is None else len(self.call.events))

    def is_held_of(self, tranche: Tranche) -> bool:
        """Tell whether events of a tranche are held that a batch waits for: what comes of it then is behind these."""
        return any(want.tranche is tranche for want in self.wants) or any(
            each.tranche is tranche for each in self.later
        )

    def wait(self, later: Later) -> None:
        """Have an event of another tranche wait; its batch waits for it."""
        self.later.append(later)
        later.running.missing += 1

    def followed(self) -> "Stream":
        """Return the stream that takes its place once it is done: what has come from one other tranche meanwhile."""
        followed = Stream(self.name, self.later[0].tranche)
        for later in self.later:
            if later.tranche is followed.tranche:
                followed.take_in(later.item, later.tranche, later.running)
            else:
                followed.later.append(later)
        return followed

    def take_in(self, item: SourceItem, tranche: Tranche, running: Running) -> bool:
        """Take in an event of a batch; tell whether it was new. A repeat changes nothing."""
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
        self._want(item.index, end, tranche, running)
        return is_new

    def take_again(self, items: Sequence[SourceItem]) -> None:
        """Take in what was read again. Nothing waits for it."""
        for item in items:
            if item.next > self.write and not self._has(item):
                insort(self.queue, item, key=_index)
                self.end = max(self.end, item.next)
        self.is_gapped = True

    def head(self, *, is_dense: bool, events_max: int) -> Sequence[SourceItem]:
        """Take the events out that come next: one after the other where indices are dense, up to so many.

        They cannot be changed: what a handler did to them would be lost to whoever settles its call.
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
        """Forget what has come from a tranche that is given up; tell whether there was anything.

        Where its events lie in others, too, it goes on with those; else its `tranche` stays.
        """
        later = [each for each in self.later if each.tranche is not tranche]
        wants = [each for each in self.wants if each.tranche is not tranche]
        if self.tranche is not tranche and len(later) == len(self.later) and len(wants) == len(self.wants):
            return False
        if len(wants) < len(self.wants):
            self.queue = [item for item in self.queue if any(each.first <= item.index < each.next for each in wants)]
            self.is_gapped = True
        self.later, self.wants = later, wants
        if self.tranche is tranche and wants:
            self.tranche = wants[0].tranche
        return True

    def set_aside(self, call: Call, failure: Failure) -> list[Parked]:
        """Return what is on record of it when it is parked, since the first event of *call* could not be handled.

        That is a span for each tranche that its events lie in.
        """
        by_tranche: dict[str, list[BatchRequirement]] = {}
        for want in self.wants:
            by_tranche.setdefault(want.tranche.name, []).append(want)
        if len(by_tranche) > 1:
            return [self._span(wants, failure) for wants in by_tranche.values()]
        tranche, since = self.tranche.name, self.tranche.completed
        if self.wants:  # Else it was parked before, and has been tried again: from where is known.
            oldest = min((want.running for want in self.wants), key=_number)
            tranche, since = self.wants[0].tranche.name, oldest.start
        end, events = self.queue[-1].next, sum(map(events_of, self.queue))
        return [Parked(self.name, tranche, call.index, end, events, self.attempts, failure.tag, failure.detail, since)]

    def put_back(self, events: Sequence[SourceItem]) -> None:
        """Have *events* wait again, before the others, but for those that need not be handled any more."""
        left = [item for item in events if item.next > self.write] if self.write > events[0].index else events
        self.queue = [*left, *self.queue]
        self.is_gapped = True

    def move(self, to: int) -> list[BatchRequirement]:
        """Have *to* wanted next, never less than before; return whose wants are met by that."""
        if to <= self.write:
            return []
        self.write = to
        queue = self.queue
        if queue and queue[0].next <= to:
            self.queue = [item for item in queue if item.next > to]
        wants = self.wants
        met = 0
        for want in wants:
            if want.next > to:
                break
            met += 1
        self.wants = wants[met:]
        return wants[:met]

    def begun(self, to: int) -> list[BatchRequirement]:
        """Return what it has done something of once it is done up to *to*, where it is kept which streams are ahead."""
        if not self.tranche.is_exact or to <= self.write:
            return []
        return [want for want in self.wants if want.first < to]

    def _span(self, wants: Sequence[BatchRequirement], failure: Failure) -> Parked:
        """Return what is on record of it in the tranche of these *wants*."""
        first, end = max(self.write, min(want.first for want in wants)), wants[-1].next
        events = sum(
            events_of(item) for item in self.queue if any(each.first <= item.index < each.next for each in wants)
        )
        oldest = min((want.running for want in wants), key=_number)
        tag, detail, name = failure.tag, failure.detail, wants[0].tranche.name
        return Parked(self.name, name, first, end, events, self.attempts, tag, detail, oldest.start)

    def _has(self, item: SourceItem) -> bool:
        call = self.call
        return _holds(self.queue, item) or (call is not None and call.given_up is None and _holds(call.events, item))

    def _want(self, first: int, end: int, tranche: Tranche, running: Running) -> None:
        wants = self.wants
        if not wants or wants[-1].next <= end:
            if wants and wants[-1].running is running:
                wants[-1].next = end
                return
            wants.append(BatchRequirement(end, running, tranche, first))
            running.missing += 1
        else:
            insort(wants, BatchRequirement(end, running, tranche, first), key=_next)
            running.missing += 1


def _holds(items: Sequence[SourceItem], item: SourceItem) -> bool:
    at = bisect_left(items, item.index, key=_index)
    return at < len(items) and items[at].index == item.index


TROUBLED_SHARE: Final = 0.25
"""Of the calls under way, while healthy streams wait; one at least."""


class Ready:
    """The streams that can be handed out, and those that wait for their time. Each stands here once.

    First comes whoever holds a position back, then the others as they came, and troubled ones in between. Troubled
    streams, which have failed or made no progress, have their share of the handlers and no more, however many they are:
    healthy ones do not wait for them.
    """

    def __init__(self) -> None:
        self._urgent: deque[Stream] = deque()
        self._healthy: deque[Stream] = deque()
        self._troubled: deque[Stream] = deque()
        self._held: list[tuple[float, int, Stream]] = []
        self._count = 0
        self._was_troubled = False

    def __len__(self) -> int:
        """How many there are that can be handed out, as far as the time was told."""
        return len(self._urgent) + len(self._healthy) + len(self._troubled)

    @property
    def due(self) -> float | None:
        """When the next one of those comes that wait for their time; None: none waits."""
        return self._held[0][0] if self._held else None

    def add(self, stream: Stream) -> None:
        """Add a stream that has something to be handled."""
        if not stream.is_listed:
            stream.is_listed = True
            self._file(stream)

    def hold(self, stream: Stream, until: float) -> None:
        """Add a stream that is not to be handed out before *until*."""
        stream.is_listed = True
        self._count += 1
        heappush(self._held, (until, self._count, stream))

    def wake(self, now: float) -> None:
        """Move those on whose time has come."""
        while self._held and self._held[0][0] <= now:
            self._file(heappop(self._held)[2])

    def next(self, troubled: int, concurrency: int) -> Stream | None:
        """Take out who comes next, while so many *troubled* streams are with handlers, of *concurrency*."""
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

    def _file(self, stream: Stream) -> None:
        if stream.attempts or stream.has_stalled:
            self._troubled.append(stream)
        elif (wants := stream.wants) and wants[0].running.number == wants[0].tranche.oldest:
            self._urgent.append(stream)
        else:
            self._healthy.append(stream)
