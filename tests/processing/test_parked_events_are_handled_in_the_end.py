"""Some events fail until they are mended, and some calls time out: on each runner, over several lives.

Their streams are parked, and the others go on. Once they are mended and tried again, all events are handled, in order,
and nothing is parked.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.processing.checkpoints.checkpoint import Advance, MemoryCheckpoints
from penstock.processing.engine.rules import Rules
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.together import Span, Together
from tests.processing.drawn import batches, checked, rules
from tests.processing.lives import TRANCHES, Appended, Log

Place: TypeAlias = tuple[str, int]
"""A stream, and the index of an event of it."""
TIMEOUT = 0.01
LASTS_SECONDS = 0.025
STREAMS_MAX = 3
STREAMS = [f"{tranche}{number}" for tranche in TRANCHES for number in range(3)]
BATCHES = batches(0, 10)
PLACES = st.frozensets(st.tuples(st.sampled_from(STREAMS), st.integers(0, 5)), max_size=4)
RULES = rules(attempts_max=st.integers(1, 3), timeout=st.just(TIMEOUT), exhausted=st.just("park"))


class Life(NamedTuple):
    """A life of a processor: the batches before it, its length and end, and the repairs after it."""

    before: list[Appended]
    lasts: int
    """So many steps, or calls."""
    is_killed: bool
    """Whether it ends without committing what it has done last."""
    mends: int
    """So many of the events that fail."""


LIVES = st.lists(st.builds(Life, BATCHES, st.integers(0, 25), st.booleans(), st.integers(0, 2)), min_size=1, max_size=3)
CHECKED = checked(8, 900)


class Work:
    """The work of handlers. Each event is done in its turn; a done event may come again.

    Args:
        broken: The events that fail.
        slow: The events at which a call lasts too long, the first time.
        last: Lets a call last.
    """

    def __init__(self, broken: frozenset[Place], slow: frozenset[Place], last: Callable[[], None]) -> None:
        self.broken = set(broken)
        self.wrong: list[str] = []
        self.done: Counter[str] = Counter()
        """By stream: how many of its first events are."""
        self.calls = 0
        self._slow = set(slow)
        self._last = last
        self._active: set[str] = set()
        self._changed = threading.Condition()

    def called(self, stream: str, events: Sequence[Any]) -> None:
        """Be called with a span: a handler."""
        self._enter(stream)
        try:
            if self._is_slow(stream, events):
                self._last()
            self._do(stream, events)
        finally:
            self._leave(stream)

    async def awaited(self, stream: str, events: Sequence[Any]) -> None:
        """Be called with a span, in an event loop: a handler."""
        self._enter(stream)
        try:
            await asyncio.sleep(LASTS_SECONDS if self._is_slow(stream, events) else 0)
            self._do(stream, events)
        finally:
            self._leave(stream)

    def together(self, spans: Sequence[Span]) -> list[Any]:
        """Be called with spans of several streams: a handler for `Together`."""
        return [self._attempt(stream, events) for stream, events in spans]

    def await_calls(self, count: int) -> None:
        """Wait until so many calls have been made since the last time, or for a moment if no more come."""
        with self._changed:
            self._changed.wait_for(lambda: self.calls >= count, 0.05)
            self.calls = 0

    def mend(self, count: int) -> None:
        """Mend so many events, or as many as there are."""
        for place in sorted(self.broken)[:count]:
            self.broken.discard(place)

    def _attempt(self, stream: str, events: Sequence[Any]) -> Any:
        try:
            return self.called(stream, events)
        except ValueError as error:
            return error

    def _is_slow(self, stream: str, events: Sequence[Any]) -> bool:
        found = self._slow & {(stream, event.index) for event in events}
        self._slow -= found
        return bool(found)

    def _enter(self, stream: str) -> None:
        with self._changed:
            self.calls += 1
            if stream in self._active:
                self.wrong.append(f"two calls at once for {stream}")
            self._active.add(stream)
            self._changed.notify_all()

    def _do(self, stream: str, events: Sequence[Any]) -> None:
        with self._changed:
            for event in events:
                if (stream, event.index) in self.broken:
                    raise ValueError("it is broken")
                if event.index > self.done[stream]:
                    self.wrong.append(f"{stream} has {event.index} done, where {self.done[stream]} came next")
                self.done[stream] = max(self.done[stream], event.index + 1)

    def _leave(self, stream: str) -> None:
        with self._changed:
            self._active.discard(stream)
            self._changed.notify_all()


class HonestCheckpoints(MemoryCheckpoints):
    """Positions that never go back, nor pass what is neither done nor on record as parked."""

    def __init__(self, work: Work, log: Log) -> None:
        super().__init__()
        self.is_dead = False
        """Whether the processor is: what it commits from now on, nobody has."""
        self._work = work
        self._log = log

    def commit(self, advance: Advance) -> None:
        """Keep *advance*, if it may be."""
        if self.is_dead:
            return
        for tranche, (before, after) in advance.moves.items():
            if before is not None and int(after) < int(before):
                self._work.wrong.append(f"{tranche} goes from {before} to {after}")
        super().commit(advance)
        self._work.wrong += [f"{place} is behind {after}" for place, after in self._passed(advance)]

    def ask_for_all(self) -> None:
        """Have all be tried again that is parked."""
        for parked in self.parked():
            self.ask(parked.stream, "retry")

    def _passed(self, advance: Advance) -> list[tuple[Place, int]]:
        waits = {parked.stream: parked.index for parked in self.parked()}
        return [
            (place, int(after))
            for tranche, (_, after) in advance.moves.items()
            for batch in self._log.batches[tranche][: int(after)]
            for place in batch
            if place[1] >= self._work.done[place[0]] and place[1] < waits.get(place[0], place[1] + 1)
        ]


class History:
    """Lives of a processor with one log and one set of checkpoints."""

    def __init__(self, broken: frozenset[Place], slow: frozenset[Place], last: Callable[[], None]) -> None:
        self.log = Log()
        self.work = Work(broken, slow, last)
        self.checkpoints = HonestCheckpoints(self.work, self.log)

    def begin(self, life: Life) -> None:
        """Have what comes before a life."""
        self.checkpoints.is_dead = False
        self.checkpoints.ask_for_all()
        for batch in life.before:
            self.log.append(batch)

    def mend_all(self) -> None:
        """Have nothing fail any more, and all be tried again that is parked."""
        self.checkpoints.is_dead = False
        self.work.broken.clear()
        self.checkpoints.ask_for_all()

    def check(self) -> None:
        """Check that all is done, and nothing is left parked."""
        assert not self.work.wrong
        assert +self.work.done == +self.log.counts
        assert not self.checkpoints.parked()
        assert not self.checkpoints.requests()


@pytest.mark.parametrize("kind", ["one", "together"])
@given(lives=LIVES, rules=RULES, broken=PLACES, slow=PLACES)
@CHECKED
def test_inline_processor_handles_parked_and_timed_out_events_in_order_in_the_end(
    kind: str, lives: list[Life], rules: Rules, broken: frozenset[Place], slow: frozenset[Place]
) -> None:
    running: list[InlineProcessor] = []
    history = History(broken, slow, lambda: running[-1].advance(LASTS_SECONDS))
    work, checkpoints = history.work, history.checkpoints
    handler: Any = work.called if kind == "one" else Together(work.together, streams_max=STREAMS_MAX)
    for life in lives:
        history.begin(life)
        running.append(InlineProcessor(handler, history.log.source, checkpoints=checkpoints, rules=rules))
        for at in range(life.lasts):
            checkpoints.is_dead = life.is_killed and at >= life.lasts // 2
            running[-1].step()
            running[-1].advance(0.002)
        work.mend(life.mends)
    history.mend_all()
    while checkpoints.requests() or len(running) <= len(lives):  # What it parks itself before it asks, is asked anew.
        running.append(InlineProcessor(handler, history.log.source, checkpoints=checkpoints, rules=rules))
        running[-1].drain(advance=True)
        checkpoints.ask_for_all()
    history.check()


@pytest.mark.parametrize("kind", ["threads", "coroutines", "together"])
@given(lives=LIVES, rules=RULES, broken=PLACES, slow=PLACES)
@CHECKED
def test_local_processor_handles_parked_and_timed_out_events_in_order_in_the_end(
    kind: str, lives: list[Life], rules: Rules, broken: frozenset[Place], slow: frozenset[Place]
) -> None:
    history = History(broken, slow, lambda: time.sleep(LASTS_SECONDS))
    work, checkpoints = history.work, history.checkpoints
    handlers: dict[str, Any] = {
        "threads": work.called,
        "coroutines": work.awaited,
        "together": Together(work.together, streams_max=STREAMS_MAX),
    }
    handler = handlers[kind]
    for life in lives:
        history.begin(life)
        with LocalProcessor(handler, history.log.source, checkpoints=checkpoints, rules=rules, commit_interval=0.001):
            work.await_calls(life.lasts)
            checkpoints.is_dead = life.is_killed
        work.mend(life.mends)
    history.mend_all()
    for _ in range(len(STREAMS)):  # What lasts too long for the first time, may be parked once more.
        with LocalProcessor(
            handler, history.log.source, checkpoints=checkpoints, rules=rules, commit_interval=0.001
        ) as last:
            last.wait_until_caught_up(300)
        checkpoints.ask_for_all()
    history.check()
