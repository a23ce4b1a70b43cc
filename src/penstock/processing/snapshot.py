"""Counts of a processor's work, which its runner keeps, and snapshots of it for observers in other threads.

Tally       counts of pages, events, commits and CPU time since the processor began
Snapshot    its work at one moment, immutable
"""

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import islice
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from penstock.errors import ProcessorUnhealthy
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.rules import Health
from penstock.processing.engine.stream import BusyStreams, Figures
from penstock.processing.engine.tranche import Batch, Position, Tranche
from penstock.processing.parameters import check_members
from penstock.processing.stats import Distribution, Histogram, Latency

__all__ = ["Snapshot"]


Activity: TypeAlias = Literal["schedule", "read", "handle", "commit"]
_clock_of: Final[Callable[[int], int] | None] = getattr(time, "pthread_getcpuclockid", None)
"""None: the system has no clock of other threads. Then the CPU time of a thread is known when it ends."""


class Cpu:
    """CPU seconds of threads, by activity. Any thread may read them."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._running: dict[int, tuple[int | None, Activity]] = {}
        """By thread: its clock and its activity. A thread is removed before it ends."""
        self._spent: Counter[str] = Counter()
        """CPU seconds of ended threads, and those added by `add`."""

    def wrap(self, activity: Activity, run: Callable[[], object]) -> Callable[[], None]:
        """Return a function that calls *run* and counts its thread's CPU time."""

        def count_and_run() -> None:
            me = threading.get_ident()
            with self._turn:
                self._running[me] = None if _clock_of is None else _clock_of(me), activity
            try:
                run()
            finally:
                with self._turn:
                    del self._running[me]
                    self._spent[activity] += time.thread_time()  # type: ignore[assignment]

        return count_and_run

    @property
    def is_counted(self) -> bool:
        """True if the calling thread is counted."""
        return threading.get_ident() in self._running

    def add(self, activity: Activity, seconds: float) -> None:
        """Add CPU seconds that were spent elsewhere."""
        with self._turn:
            self._spent[activity] += seconds  # type: ignore[assignment]

    def seconds(self) -> dict[str, float]:
        """Return the CPU seconds so far."""
        with self._turn:
            found: dict[str, float] = {**self._spent}
            for clock, activity in self._running.values():
                found[activity] = found.get(activity, 0.0) + (0.0 if clock is None else time.clock_gettime(clock))
        return found


SILENT_SECONDS: Final = 15.0
"""A source without an answer for this time is reported as silent, in the log and on the terminal."""


class SourceAnswer(NamedTuple):
    """The last answer of a source about the number of events behind positions."""

    counts: Mapping[str, int | None]
    """By tranche; None: unknown."""
    completed: Mapping[str, int]
    """By tranche, how many events were done at those positions."""


class _Unread(NamedTuple):
    read: Position
    gap: int
    since: float


class SourceWatch:
    """The last answer of a source. A source that does not answer keeps its last known head.

    Two things are answers: a batch, and a count of events that are behind. While reads fail, a count is no answer:
    it need not come from the part of the source that is read.
    """

    def __init__(self) -> None:
        self._answered_at: float | None = None
        self._answer = SourceAnswer({}, {})
        self._is_failing = False
        self._unread: dict[str, _Unread] = {}

    def begin(self, now: float) -> None:
        """Begin to measure the time without an answer at *now*, unless it is measured already."""
        if self._answered_at is None:
            self._answered_at = now

    def note_read(self, now: float, *, is_answer: bool) -> None:
        """Record that a read has succeeded; it *is_answer* if it returned a batch, even an empty one."""
        self._is_failing = False
        if is_answer:
            self._answered_at = now

    def note_failed_read(self) -> None:
        """Record that a read has failed."""
        self._is_failing = True

    def note_counts(self, answer: SourceAnswer, now: float, *, is_wanted: bool) -> None:
        """Record the source's *answer* to the request for counts at *now*.

        Counts that are unknown for all tranches are no answer, unless no tranche *is_wanted*: such a source looks the
        same as one that is not read.
        """
        self._answer = answer
        knows = not answer.counts or any(count is not None for count in answer.counts.values())
        if not self._is_failing and (knows or not is_wanted):
            self._answered_at = max(now, self._answered_at or now)

    def unanswered_seconds(self, now: float) -> float:
        """Return the seconds since the last answer of the source."""
        return 0.0 if self._answered_at is None else max(0.0, now - self._answered_at)

    def count_gap(self, tranche: str, ahead: int, completed: int) -> int | None:
        """Return how many events of a tranche are not done; None: unknown.

        Args:
            tranche: Its name.
            ahead: How many of its events are read and not done.
            completed: How many of its events were done so far.
        """
        count = self._answer.counts.get(tranche)
        if count is None:
            return None
        return max(ahead, count - (completed - self._answer.completed.get(tranche, 0)))

    def find_unread_since(self, tranche: str, read: Position, gap: int | None, ahead: int) -> float | None:
        """Return since when a tranche has had events that are not read, with no progress; None: none are known.

        In seconds since 1970. That is later than the source has received them.
        """
        if gap is None or gap <= ahead:
            self._unread.pop(tranche, None)
            return None
        before = self._unread.get(tranche)
        has_moved = before is None or before.read != read or gap < before.gap
        since = time.time() if before is None or has_moved else before.since
        self._unread[tranche] = _Unread(read, gap, since)
        return since


def describe_silence(unanswered_seconds: float | None) -> str | None:
    """Return the describe_figures that a source is silent; None: it is not."""
    if unanswered_seconds is None or unanswered_seconds < SILENT_SECONDS:
        return None
    return f"the source has not answered for {unanswered_seconds:.0f} s"


OK: Final = "ok"
FAILED: Final = "failed"


class TalliedBatch(NamedTuple):
    """A batch, or a part of one, that is not done."""

    received: int | None
    """The time at which the hub received its first event, in microseconds since 1970; None: unknown."""
    events: int


class Tally:
    """Counts for observers of a processor. Only the loop that runs the engine writes here."""

    def __init__(self) -> None:
        self.pages: Counter[str] = Counter()
        """The number of pages read, by tranche."""
        self.events: Counter[str] = Counter()
        """The number of events in them."""
        self.bytes: Counter[str] = Counter()
        """Bytes read, of tranches whose source counts them."""
        self.completed: Counter[str] = Counter()
        """The number of events in pages that are done, by tranche."""
        self.reads = Latency()
        """The durations of reads."""
        self.ingests = Latency()
        """The durations in which the engine ingested a page, or a part of one."""
        self.rounds: Latency | None = None
        """The durations of rounds; None: it has none."""
        self.round_began: float | None = None
        """The time at which the running round began; None: no round is running."""
        self.commits: Counter[str] = Counter({OK: 0, FAILED: 0})
        """The number of commits, by result."""
        self.commits_failing = 0
        """The number of consecutive failed commits."""
        self.commit_failure: str | None = None
        """The reason of the last failure."""
        self.commit_began: float | None = None
        """The time at which the running commit began; None: no commit is known to be running."""
        self.cpu = Cpu()
        """CPU time of its threads."""
        self.source = SourceWatch()
        """The last answer of its source, and the time of it."""
        self._pages: dict[str, deque[TalliedBatch]] = defaultdict(deque)
        """The unfinished batches, by tranche."""
        self._tranches: dict[str, Tranche] = {}

    def note_batch(self, batch: Batch, took: float = 0.0) -> None:
        """Record that a batch was ingested, which took *took* seconds."""
        name, items = batch.tranche, batch.items
        events = len(items) if batch.size is None else batch.size
        self.pages[name] += not batch.is_part
        self.events[name] += events
        if batch.bytes is not None:
            self.bytes[name] += batch.bytes
        self.ingests.add(took)
        self._pages[name].append(TalliedBatch(getattr(items[0], "received", None) if items else None, events))

    def begin_round(self, now: float) -> None:
        """Record that a round begins."""
        self.rounds = self.rounds or Latency()
        self.round_began = now

    def end_round(self, now: float) -> None:
        """Record that the round has ended, successfully or not."""
        if self.rounds is not None and self.round_began is not None:
            self.rounds.add(now - self.round_began)
        self.round_began = None

    def end_commit(self) -> None:
        """Record that a commit has succeeded."""
        self.commits[OK] += 1
        self.commits_failing = 0
        self.commit_failure = self.commit_began = None

    def fail_commit(self, reason: str) -> None:
        """Record that a commit has failed."""
        self.commits[FAILED] += 1
        self.commits_failing += 1
        self.commit_failure, self.commit_began = reason, None

    def follow(self, tranche: Tranche) -> None:
        """Record the pages of a tranche that are done."""
        name, pages = tranche.name, self._pages[tranche.name]
        before = self._tranches.setdefault(name, tranche)
        if before is not tranche:  # It was released meanwhile: its unfinished pages are read again.
            self._tranches[name] = tranche
            while len(pages) > tranche.parts:
                pages.popleft()
        while len(pages) > tranche.parts:  # Pages end in the order in which they came.
            self.completed[name] += pages.popleft().events

    def unanswered_seconds(self, now: float) -> float:
        """Return the seconds since the last answer of the source; 0 during a round, since its tasks read it."""
        return 0.0 if self.round_began is not None else self.source.unanswered_seconds(now)

    def check_source(self, health: Health, now: float) -> None:
        """Raise ProcessorUnhealthy if the source has not answered for longer than *health* allows."""
        seconds, most = self.unanswered_seconds(now), health.unanswered_seconds_max
        if most is not None and seconds > most:
            raise ProcessorUnhealthy.of("source-silent", seconds=round(seconds), most=most)

    def find_oldest(self, tranche: Tranche) -> int | None:
        """Return when the hub received the oldest event that is read and not done, in microseconds; None: unknown."""
        self.follow(tranche)
        return next((page.received for page in self._pages[tranche.name] if page.received is not None), None)


class Category(NamedTuple):
    """Figures of one event type."""

    ingested: int
    """The number of events read."""
    completed: int
    """The number of them in pages that are done."""


def group_by_category(ingested: Mapping[str, int], completed: Mapping[str, int]) -> dict[str, Category]:
    """Return the figures of each category, out of those of its tranches.

    >>> group_by_category({"order.placed/0": 3, "order.placed/1": 2, "in/today.ndjson": 7}, {"order.placed/1": 2})
    {'order.placed': Category(ingested=5, completed=2)}
    """
    read, done = _sum_by_event_type(ingested), _sum_by_event_type(completed)
    return {name: Category(count, done[name]) for name, count in read.items()}


def _sum_by_event_type(counts: Mapping[str, int]) -> Counter[str]:
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
    found = engine.count_states()
    return Snapshot(
        name=name,
        taken=time.monotonic(),
        is_running=is_running,
        tranches=tuple(_measure_tranche(engine, tally, each) for each in engine.positions()),
        streams={state: each.streams for state, each in found.items()},
        events={state: each.events for state, each in found.items()},
        busy=engine.busy.measure(now),
        longest=tuple(_list_longest(engine.busy, now)),
        gapped=tuple(Gapped(name, *at) for name, at in islice(engine.find_missing().items(), LONGEST_MAX)),
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
        categories=group_by_category(tally.events, tally.completed),
        reads=tally.reads.histogram(),
        ingests=tally.ingests.histogram(),
        rounds=None if tally.rounds is None else tally.rounds.histogram(),
        round_seconds=None if tally.round_began is None else now - tally.round_began,
        cpu_seconds=tally.cpu.seconds(),
        unanswered_seconds=tally.unanswered_seconds(now) if is_running else None,
    )


def _measure_tranche(engine: Engine, tally: Tally, name: str) -> TrancheFigures:
    found = engine.tranche(name)
    oldest, done = tally.find_oldest(found), tally.completed[name]
    gap = tally.source.count_gap(name, found.events, done)
    unread_since = tally.source.find_unread_since(name, found.read, gap, found.events)
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


def _list_longest(busy: BusyStreams, now: float) -> Iterator[BusyStream]:
    for state, troubles in (("stalled", busy.stalled), ("failing", busy.failing)):
        for each in nsmallest(LONGEST_MAX, troubles.values(), key=attrgetter("since")):
            age = now - each.since
            yield BusyStream(each.stream, state, each.index, age, each.attempts, each.tag, each.detail)
    calls = islice(busy.active.values(), LONGEST_MAX)
    for call in calls:
        yield BusyStream(call.stream, "active", call.index, now - call.began, call.attempt, None, None)
