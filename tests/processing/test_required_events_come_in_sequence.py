"""With `require_all`, each stream has all of its events, one after the other, in a random run.

They come late, out of order, again, and in several tranches; streams are parked, tried again, dropped and approved;
pages that were read again come when they are outdated; and processors are sent back to the beginning.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from penstock.processing.engine.engine import Engine
from penstock.processing.engine.parking import Parked
from penstock.processing.engine.stream import Call
from penstock.processing.engine.tranche import Batch
from penstock.processing.outcomes import Failure, done_to
from tests.processing.drawn import checked
from tests.unit.processing.engine.items import Thing, engine, indices

TRANCHES: Final = ("a", "b")
STREAM: Final = "S"
ROUNDS_MAX: Final = 200
BROKEN: Final = Failure("ValueError", "not yet")


Log: TypeAlias = dict[str, list[list[Thing]]]


def begin_engine() -> Engine:
    return engine(*TRANCHES, is_dense=True, require_all=True, attempts_max=1, exhausted="park", events_per_call=2)


class Run:
    """An engine, and beside it the log, how much of it was read, and which index comes next.

    Args:
        log: The batches of each tranche.
        broken: The events that fail, until they are mended.
    """

    def __init__(self, log: Log, broken: frozenset[int]) -> None:
        self.log = log
        self._count = max(item.next for item in _come(log))
        self._broken = broken
        self._wanted = 0
        self._come_to = 0
        """Behind all that the engine was given."""
        self._calls: list[Call] = []
        self._pages: list[tuple[Parked, Batch]] = []
        self._there = dict.fromkeys(TRANCHES, 0)
        self._begin([])

    def append(self) -> None:
        """Have another batch be there to be read."""
        left = {tranche: len(self.log[tranche]) - self._there[tranche] for tranche in TRANCHES}
        tranche = max(left, key=lambda each: left[each])
        self._there[tranche] += min(1, left[tranche])

    def read(self) -> None:
        """Read a batch, which may have come just now."""
        if self._there == self._read:
            self.append()
        tranche = max(TRANCHES, key=lambda each: self._there[each] - self._read[each])
        if self._read[tranche] < self._there[tranche]:
            batch = self._page(tranche, self._read[tranche], 1)
            self._read[tranche] += 1
            self._engine.ingest(batch, 0.0)
            self._come_to = max([self._come_to, *(item.next for item in batch.items)])

    def call(self) -> None:
        """Have a call made, of exactly what comes next."""
        for call in self._engine.take(2, 0.0):
            assert indices(call) == [*range(self._wanted, self._wanted + len(call.events))], "not what comes next"
            assert not self._calls, "two calls at once"
            self._calls.append(call)

    def settle(self) -> None:
        """End a call: as far as it goes."""
        if self._calls:
            call = self._calls.pop()
            to = next((index for index in indices(call) if index in self._broken), call.next)
            self._engine.settle(call, done_to(to) if to > call.index else BROKEN, 0.0, 0.001)
            self._wanted = max(self._wanted, to)

    def work(self) -> None:
        """Make a call and end it."""
        self.call()
        self.settle()

    def mend(self) -> None:
        """Have nothing fail any more."""
        self._broken = frozenset()

    def retry(self) -> None:
        """Want the stream tried again."""
        self._engine.retry(STREAM)

    def drop(self) -> None:
        """Drop what is parked."""
        if STREAM in self._engine.parking.streams and not self._calls:
            self._engine.drop(STREAM)
            self._wanted = max(self._wanted, self._come_to)

    def approve(self) -> None:
        """Go on without what is missing."""
        if missing := self._engine.find_missing().get(STREAM):
            assert missing[0] == self._wanted
            self._engine.advance_stream(STREAM, missing[1])
            self._wanted = missing[1]

    def ask(self) -> None:
        """Read a page that comes later: what was parked may be something else by then."""
        self._pages += [(each, self._page(each.tranche, int(each.since), 2)) for each in self._engine.list_replays()]

    def replay(self) -> None:
        """Hand in the oldest page that was read again."""
        if self._pages:
            self._engine.replay(*self._pages.pop(0), 0.0)

    def again(self) -> None:
        """Read a page, and hand it in."""
        self.ask()
        self.replay()

    def rewind(self) -> None:
        """Begin with another engine, that is moved to the beginning."""
        self._begin([replace(span, index=0, since=0) for span in self._kept()])

    def restart(self) -> None:
        """Begin with another engine, where nothing has come further than the beginning."""
        if not any(self._engine.positions().values()):
            self._begin(self._kept())

    def look(self) -> None:
        """Check that positions are behind the done events, and before all others."""
        is_parked = STREAM in self._engine.parking.streams
        for tranche in TRANCHES:
            batches = self.log[tranche][: self._read[tranche]]
            held = (
                at
                for at, batch in enumerate(batches)
                if any(item.index >= self._wanted for item in batch) and not is_parked
            )
            assert self._engine.positions()[tranche] == next(held, len(batches))

    def end(self) -> None:
        """Let all come, and be handled: nothing is missing then, and nothing is parked."""
        self.mend()
        for _ in range(ROUNDS_MAX):
            self.settle()
            self.read()
            self.retry()
            self.again()
            self.call()
        assert not self._engine.find_missing()
        assert not self._engine.parking.streams
        assert self._wanted == self._count
        assert self._engine.is_idle

    def _begin(self, kept: Sequence[Parked]) -> None:
        self._engine, self._calls, self._pages = begin_engine(), [], []
        self._engine.parking.load(kept)
        self._read = dict.fromkeys(TRANCHES, 0)
        self._come_to = max([span.next for span in kept] or [0])
        self._wanted = max([span.index for span in kept] or [0])

    def _kept(self) -> list[Parked]:
        return [*self._engine.parking.streams.get(STREAM, {}).values()]

    def _page(self, tranche: str, at: int, batches: int) -> Batch:
        there = self.log[tranche][: self._there[tranche]]
        found = there[at : at + batches]
        end = at + len(found)
        return Batch(tranche, end, _come({tranche: found}), is_tail=end == len(there))


def _come(log: Log) -> list[Thing]:
    return [item for batches in log.values() for batch in batches for item in batch]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw a log that has all of up to eight events, some of them twice, in any order."""
    come = draw(st.integers(1, 8).flatmap(lambda count: st.permutations([*range(count)])))
    again = draw(st.lists(st.sampled_from(come), max_size=2))
    log: Log = {tranche: [] for tranche in TRANCHES}
    for index in [*come, *again]:
        batches, is_new = log[draw(st.sampled_from(TRANCHES))], draw(st.booleans())
        if is_new or not batches:
            batches.append([])
        batches[-1].append(Thing(STREAM, index))
    return log


OFTEN: Final = (Run.read, Run.work, Run.again, Run.retry)
SELDOM: Final = (
    Run.append, Run.call, Run.settle, Run.ask, Run.replay, Run.mend, Run.drop, Run.approve, Run.rewind, Run.restart,
)  # fmt: skip


@given(
    log=logs(),
    broken=st.frozensets(st.integers(0, 4), min_size=1, max_size=2),
    steps=st.lists(st.sampled_from([*OFTEN * 4, *SELDOM]), min_size=30, max_size=60),
)
@checked(60, 18_000)
def test_each_required_index_is_handled_in_sequence(
    log: Log, broken: frozenset[int], steps: Sequence[Callable[[Run], None]]
) -> None:
    run = Run(log, broken)
    for step in steps:
        step(run)
        run.look()
    run.end()
