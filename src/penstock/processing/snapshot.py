"""Snapshot of a processor's work at one moment, for observers in other threads."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import islice
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol

from penstock.processing.engine.engine import Engine
from penstock.processing.engine.stream import Busy, Figures
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_members
from penstock.processing.stats import Distribution, Histogram
from penstock.processing.tally import Tally

__all__ = ["Snapshot"]


class Category(NamedTuple):
    """Figures of one event type."""

    ingested: int
    """The number of events read."""
    completed: int
    """The number of them in pages that are done."""


def categories(ingested: Mapping[str, int], completed: Mapping[str, int]) -> dict[str, Category]:
    """Return the figures of each category, out of those of its tranches.

    >>> categories({"order.placed/0": 3, "order.placed/1": 2, "in/today.ndjson": 7}, {"order.placed/1": 2})
    {'order.placed': Category(ingested=5, completed=2)}
    """
    read, done = _sums(ingested), _sums(completed)
    return {name: Category(count, done[name]) for name, count in read.items()}


def _sums(counts: Mapping[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for tranche, count in counts.items():
        event_type, slash, partition = tranche.rpartition("/")
        if slash and partition.isdecimal():
            found[event_type] += count
    return found


LONGEST_MAX: Final = 20
"""A snapshot names at most this number of streams of each state: those that have been in it for longest."""


@dataclass(frozen=True, slots=True)
class TrancheFigures:
    """The progress of a tranche."""

    name: str
    position: Position
    """All before it is handled."""
    read: Position
    """All before it was read."""
    is_tail: bool
    """True if the last read reached the end of the tranche."""
    pages_ahead: int
    """The number of pages that are read and not done."""
    events_ahead: int
    """The number of events of these pages."""
    pages_read: int
    events_read: int
    oldest: int | None
    """The time at which the hub received the oldest event that is read and not done, in microseconds since 1970.

    If no event is read and the source has more: since when that is known without progress. None: unknown."""
    events_done: int
    """The number of events in pages that are done."""
    bytes_read: int | None = None
    """Bytes read; None: its source does not count them."""
    gap: int | None = None
    """The number of events not done that the source had when it last answered; None: unknown."""

    def lag_seconds(self, now: float) -> float | None:
        """Return the oldest event's age in seconds at *now*, in seconds since 1970; 0 if all is done, None: unknown."""
        if not self.pages_ahead and (self.is_tail if self.gap is None else self.gap == 0):
            return 0.0
        return None if self.oldest is None else max(0.0, now - self.oldest / 1e6)


@dataclass(frozen=True, slots=True)
class BusyStream:
    """A stream that is with a handler, or is in trouble."""

    stream: str
    state: str
    """active, failing or stalled."""
    index: int
    """The index of the first event that is not done."""
    age_seconds: float
    """Seconds since it entered this state."""
    attempts: int
    tag: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Gapped:
    """A stream that waits for an index that is missing."""

    stream: str
    missing: int
    """The index that is wanted next."""
    found: int
    """The first index behind it that is there."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Snapshot of a processor's work; immutable."""

    name: str
    """The processor's: the label `group` of its metrics."""
    taken: float
    """The time of the snapshot by `time.monotonic`; ages are as of then."""
    is_running: bool
    tranches: tuple[TrancheFigures, ...]
    streams: Mapping[str, int]
    """The number of streams in each state."""
    events: Mapping[str, int]
    """The number of their events that wait, or are with handlers."""
    busy: Mapping[str, Figures]
    """Figures of active, failing and stalled streams."""
    longest: tuple[BusyStream, ...]
    """The streams that have been in their state for longest."""
    gapped: tuple[Gapped, ...]
    """Streams that wait for an index that is missing: some of them, where `Rules.require_all` has them wait."""
    took: Mapping[str, Histogram]
    """The durations of calls, by result: `ok`, or a tag."""
    failures: Mapping[str, int]
    """The number of failed calls, by tag."""
    counts: Mapping[str, int]
    """The handlers' counters."""
    gauges: Mapping[str, float]
    """The handlers' gauges."""
    observed: Mapping[str, Distribution]
    """The handlers' histograms."""
    handled: int
    repeats: int
    commits: Mapping[str, int]
    """The number of commits, `ok` and `failed`."""
    commits_failing: int
    """The number of consecutive failed commits."""
    commit_failure: str | None
    """The reason of the last failure; None: the last commit has succeeded."""
    commit_seconds: float | None
    """The duration so far of the running commit; None: no commit is running."""
    categories: Mapping[str, Category]
    """The numbers of events read and completed, by event type; for feeds only."""
    reads: Histogram
    """The durations of reads, waiting included."""
    ingests: Histogram
    """The durations in which the engine ingested a page, or a part of one."""
    rounds: Histogram | None
    """The durations of rounds; None: it does not run on Spark."""
    round_seconds: float | None
    """The duration so far of the running round; None: no round is running."""
    cpu_seconds: Mapping[str, float]
    """CPU seconds of its threads, by activity."""
    unanswered_seconds: float | None
    """Seconds since the last answer of its source; None: the processor does not run."""

    @property
    def events_ahead(self) -> int:
        """The number of events read in pages that are not done."""
        return sum(tranche.events_ahead for tranche in self.tranches)

    def lag_seconds(self) -> float | None:
        """Return the age in seconds of the oldest event that is read and not done; None: unknown."""
        now = time.time()
        found = [lag for tranche in self.tranches if (lag := tranche.lag_seconds(now)) is not None]
        return max(found, default=None)

    def age_seconds(self) -> float:
        """Return how many seconds ago it was taken."""
        return max(0.0, time.monotonic() - self.taken)

    @property
    def gap(self) -> int | None:
        """The number of events not done that the source had when it last answered; None: unknown."""
        found = [tranche.gap for tranche in self.tranches if tranche.gap is not None]
        return sum(found) if found else None

    def round_now_seconds(self) -> float:
        """Return the duration so far of the running round, if it has not ended meanwhile; 0: no round is running."""
        return 0.0 if self.round_seconds is None else self.round_seconds + self.age_seconds()

    def busy_now(self) -> dict[str, Figures]:
        """Return the figures of active, failing and stalled streams, with ages as of now if none has changed state."""
        since = self.age_seconds()
        return {
            state: replace(each, oldest_seconds=each.oldest_seconds + since, newest_seconds=each.newest_seconds + since)
            if each.streams
            else each
            for state, each in self.busy.items()
        }


class ObservedProcessor(Protocol):
    """A processor that can be observed."""

    @property
    def name(self) -> str:
        """The processor's name."""
        ...

    @property
    def snapshot(self) -> Snapshot:
        """A recent snapshot. Any thread may read it."""
        ...


def check_observed(parameter: str, value: Any) -> None:
    """Raise BadParameter if *value* visibly cannot be observed."""
    check_members(parameter, value, ObservedProcessor, "a processor, such as LocalProcessor(handler, source)")


def take_snapshot(name: str, engine: Engine, tally: Tally, now: float, *, is_running: bool) -> Snapshot:
    """Return a snapshot of *engine* at *now*, by its own clock. Call it in the thread that runs the engine."""
    found = engine.census()
    return Snapshot(
        name=name,
        taken=time.monotonic(),
        is_running=is_running,
        tranches=tuple(_tranche(engine, tally, each) for each in engine.positions()),
        streams={state: each.streams for state, each in found.items()},
        events={state: each.events for state, each in found.items()},
        busy=engine.busy.figures(now),
        longest=tuple(_longest(engine.busy, now)),
        gapped=tuple(Gapped(name, *at) for name, at in islice(engine.missing().items(), LONGEST_MAX)),
        took={kind: latency.histogram() for kind, latency in engine.latency.items()},
        failures=dict(engine.busy.failures),
        counts=dict(engine.counts),
        gauges=dict(engine.stats.gauges),
        observed={name: each.distribution() for name, each in engine.stats.observed.items()},
        handled=engine.handled,
        repeats=engine.repeats,
        commits=dict(tally.commits),
        commits_failing=tally.commits_failing,
        commit_failure=tally.commit_failure,
        commit_seconds=None if tally.commit_began is None else now - tally.commit_began,
        categories=categories(tally.events, tally.completed),
        reads=tally.reads.histogram(),
        ingests=tally.ingests.histogram(),
        rounds=None if tally.rounds is None else tally.rounds.histogram(),
        round_seconds=None if tally.round_began is None else now - tally.round_began,
        cpu_seconds=tally.cpu.seconds(),
        unanswered_seconds=tally.unanswered_seconds(now) if is_running else None,
    )


def _tranche(engine: Engine, tally: Tally, name: str) -> TrancheFigures:
    found = engine.tranche(name)
    oldest, done = tally.oldest(found), tally.completed[name]
    gap = tally.source.gap(name, found.events, done)
    unread_since = tally.source.unread_since(name, found.read, gap, found.events)
    if unread_since is not None and not found.batches:
        oldest = int(unread_since * 1e6)
    return TrancheFigures(
        name,
        found.completed,
        found.read,
        found.is_tail,
        found.batches,
        found.events,
        tally.pages[name],
        tally.events[name],
        oldest,
        done,
        tally.bytes.get(name),
        gap,
    )


def _longest(busy: Busy, now: float) -> Iterator[BusyStream]:
    for state, troubles in (("stalled", busy.stalled), ("failing", busy.failing)):
        for each in nsmallest(LONGEST_MAX, troubles.values(), key=attrgetter("since")):
            age = now - each.since
            yield BusyStream(each.stream, state, each.index, age, each.attempts, each.tag, each.detail)
    calls = islice(busy.active.values(), LONGEST_MAX)
    for call in calls:
        yield BusyStream(call.stream, "active", call.index, now - call.began, call.attempt, None, None)
