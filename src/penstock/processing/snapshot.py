"""What a processor has under way, as it was at one moment: for whoever watches it from another thread."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import islice
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol

from penstock.processing.engine.busy import Busy, Figures
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.item import Position
from penstock.processing.parameters import check_members
from penstock.processing.stats import Distribution, Histogram
from penstock.processing.tally import Tally

__all__ = ["Snapshot"]


class Category(NamedTuple):
    """Of one event type."""

    ingested: int
    """How many events were read."""
    completed: int
    """How many of them were in pages that are done."""


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
"""Of so many streams of each state it is told which they are: of those that have been so for longest."""


@dataclass(frozen=True, slots=True)
class TrancheFigures:
    """How far a tranche is."""

    name: str
    position: Position
    """All before it is handled."""
    read: Position
    """All before it was read."""
    is_tail: bool
    """Whether there was nothing more behind what was read last."""
    pages_ahead: int
    """How many pages are read, and not done."""
    events_ahead: int
    """How many events these have."""
    pages_read: int
    events_read: int
    oldest: int | None
    """When the hub took the oldest event that is read and not done, in microseconds since 1970; None: nobody knows.

    Where nothing is read, and the source has more: since when that is known, and the tranche has made no progress."""
    events_done: int
    """The number of events in pages that are done."""
    bytes_read: int | None = None
    """How much was read; None: its source does not say."""
    gap: int | None = None
    """The number of events not done that the source had when it last answered; None: it does not tell."""

    def lag_seconds(self, now: float) -> float | None:
        """Return how old that event is at *now*, in seconds since 1970; 0 where all is done, None: nobody knows."""
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
    """Of the first event that is not done."""
    age_seconds: float
    """For how long it has been so."""
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
    """The first that there is behind it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a processor has under way. Nothing of it changes any more."""

    name: str
    """The processor's: the label `group` of its metrics."""
    taken: float
    """When, by `time.monotonic`: ages have grown since."""
    is_running: bool
    tranches: tuple[TrancheFigures, ...]
    streams: Mapping[str, int]
    """How many there are in each state."""
    events: Mapping[str, int]
    """How many of theirs wait, or are with handlers."""
    busy: Mapping[str, Figures]
    """Of streams that are active, failing and stalled."""
    longest: tuple[BusyStream, ...]
    """Who has been so for longest."""
    gapped: tuple[Gapped, ...]
    """Streams that wait for an index that is missing: some of them, where `Rules.require_all` has them wait."""
    took: Mapping[str, Histogram]
    """How long calls took, by what has come of them: `ok`, or a tag."""
    failures: Mapping[str, int]
    """How many calls have failed, by tag."""
    counts: Mapping[str, int]
    """What handlers have counted."""
    gauges: Mapping[str, float]
    """What handlers have set."""
    observed: Mapping[str, Distribution]
    """What handlers have observed."""
    handled: int
    repeats: int
    commits: Mapping[str, int]
    """How many, `ok` and `failed`."""
    commits_failing: int
    """How many in a row have failed."""
    commit_failure: str | None
    """Why the last of these has; None: the last commit has not."""
    commit_seconds: float | None
    """For how long the commit has gone on that is under way; None: none is."""
    categories: Mapping[str, Category]
    """What was read and completed, by event type; of feeds alone."""
    reads: Histogram
    """How long it took to read something, what it was waited for included."""
    ingests: Histogram
    """How long the engine took to take a page, or a part of one, in."""
    rounds: Histogram | None
    """How long rounds took; None: it has none, since it does not run on Spark."""
    round_seconds: float | None
    """For how long the round has gone on that is under way; None: none is."""
    cpu_seconds: Mapping[str, float]
    """What its threads have computed, in seconds, by what they do."""
    unanswered_seconds: float | None
    """For how long its source had not answered; None: the processor does not run."""

    @property
    def events_ahead(self) -> int:
        """How many events are read in pages that are not done."""
        return sum(tranche.events_ahead for tranche in self.tranches)

    def lag_seconds(self) -> float | None:
        """Return how old the oldest event is that is read and not done; None: nobody knows."""
        now = time.time()
        found = [lag for tranche in self.tranches if (lag := tranche.lag_seconds(now)) is not None]
        return max(found, default=None)

    def age_seconds(self) -> float:
        """Return how many seconds ago it was taken."""
        return max(0.0, time.monotonic() - self.taken)

    @property
    def gap(self) -> int | None:
        """The number of events not done that the source had when it last answered; None: it does not tell."""
        found = [tranche.gap for tranche in self.tranches if tranche.gap is not None]
        return sum(found) if found else None

    def round_now_seconds(self) -> float:
        """Return for how long the round has gone on that is under way, if it has not ended meanwhile; 0: none is."""
        return 0.0 if self.round_seconds is None else self.round_seconds + self.age_seconds()

    def busy_now(self) -> dict[str, Figures]:
        """Return what is active, failing and stalled, with ages as they are now if nothing has ended meanwhile."""
        since = self.age_seconds()
        return {
            state: replace(each, oldest_seconds=each.oldest_seconds + since, newest_seconds=each.newest_seconds + since)
            if each.streams
            else each
            for state, each in self.busy.items()
        }


class ObservedProcessor(Protocol):
    """A processor that can be watched."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def snapshot(self) -> Snapshot:
        """What it had under way lately. May be asked by any thread."""
        ...


def check_observed(parameter: str, value: Any) -> None:
    """Raise BadParameter unless *value* can be watched, as far as that can be told."""
    check_members(parameter, value, ObservedProcessor, "a processor, such as LocalProcessor(handler, source)")


def take_snapshot(name: str, engine: Engine, tally: Tally, now: float, *, is_running: bool) -> Snapshot:
    """Return what *engine* has under way at *now*, by its own clock. For whoever has the engine."""
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
