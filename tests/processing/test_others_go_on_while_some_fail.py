"""Streams that always fail hold nobody else: all that may be read beside them is handled, and no more."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.processing.engine.rules import Rules
from penstock.processing.runners.inline import Inline
from penstock.processing.runners.local import Local
from tests.processing.drawn import batches, checked, rules
from tests.processing.lives import TRANCHES, Appended, HonestCheckpoints, Journal, Log
from tests.processing.test_every_runner_keeps_its_promises import (
    STREAMS_MAX,
    check_that_all_is_kept,
    handler_of,
)

STREAMS = [f"{tranche}{number}" for tranche in TRANCHES for number in range(3)]
POISON = st.dictionaries(st.sampled_from(STREAMS), st.integers(0, 1), min_size=1, max_size=4)
BATCHES, RULES = batches(10, 18, events=4), rules(5, 16)
CHECKED = checked(20)
SOON_S = 300.0


class Poisoned(Journal):
    """A journal in which some streams fail from an event on, until they are mended; others fail as chance has it."""

    skips = False  # What is skipped cannot fail.

    def __init__(
        self, log: Log, poison: Mapping[str, int], seed: int, rules: Rules, *, concurrency: int | None
    ) -> None:
        super().__init__(log, seed, rules, concurrency=concurrency)
        self._poison = dict(poison)
        self.reach = {tranche: log.limit(tranche, self._held(tranche), rules) for tranche in TRANCHES}
        """Up to which batch each tranche can be read."""

    def mend(self) -> None:
        """Have nothing fail any more but by chance."""
        with self._changed:
            self._poison = {}

    def is_as_far_as_can_be(self) -> bool:
        """Tell whether all is done that can be read, and does not fail."""
        return all(self.wanted(stream) == self._end(stream) for stream in STREAMS)

    def await_as_far_as_can_be(self) -> None:
        """Wait until it is so."""
        with self._changed:
            assert self._changed.wait_for(self.is_as_far_as_can_be, SOON_S), "others are held up"

    def _held(self, tranche: str) -> int:
        """Return the first batch that is never done."""
        batches = self._log.batches[tranche]
        bad = [number for number, batch in enumerate(batches) if any(map(self._is_poison, batch))]
        return bad[0] if bad else len(batches)

    def _end(self, stream: str) -> int:
        readable = self._log.batches[stream[0]][: self.reach[stream[0]]]
        count = sum(name == stream for batch in readable for name, _ in batch)
        return min(count, self._poison.get(stream, count))

    def _is_poison(self, place: tuple[str, int]) -> bool:
        stream, index = place
        return stream in self._poison and index >= self._poison[stream]

    def _outcome(self, stream: str, events: Sequence[Any]) -> Any:
        sound = [event for event in events if not self._is_poison((stream, event.index))]
        if not sound:
            raise ValueError("poison")
        return super()._outcome(stream, sound)


def poisoned(kind: str, batches: list[Appended], poison: Mapping[str, int], rules: Rules, seed: int) -> Poisoned:
    log = Log()
    for batch in batches:
        log.append(batch)
    most = {"one": 1, "threads": rules.concurrency, "together": STREAMS_MAX}.get(kind)
    return Poisoned(log, poison, seed, rules, concurrency=most)


@pytest.mark.parametrize("kind", ["one", "together"])
@given(batches=BATCHES, poison=POISON, rules=RULES, seed=st.integers(0, 1000))
@CHECKED
def test_step_by_step(kind: str, batches: list[Appended], poison: dict[str, int], rules: Rules, seed: int) -> None:
    journal = poisoned(kind, batches, poison, rules, seed)
    checkpoints = HonestCheckpoints(journal)
    source = journal._log.source
    running = Inline(handler_of(journal, kind), source, checkpoints=checkpoints, rules=rules, seed=seed)

    def go_on(is_over: Callable[[], bool], steps: int) -> None:
        for _ in range(steps):
            if is_over():
                return
            running.step()
            running.advance(0.005)

    go_on(journal.is_as_far_as_can_be, 600)
    assert journal.is_as_far_as_can_be(), "others are held up"
    go_on(lambda: False, 10)
    assert journal.is_as_far_as_can_be(), "more was read than may be"
    journal.mend()
    running.drain(advance=True)
    check_that_all_is_kept(journal, checkpoints)


@pytest.mark.parametrize("kind", ["threads", "coroutines", "together"])
@given(batches=BATCHES, poison=POISON, rules=RULES, seed=st.integers(0, 1000))
@CHECKED
def test_beside_each_other(kind: str, batches: list[Appended], poison: dict[str, int], rules: Rules, seed: int) -> None:
    journal = poisoned(kind, batches, poison, rules, seed)
    checkpoints = HonestCheckpoints(journal)
    source = journal._log.source
    with Local(
        handler_of(journal, kind), source, checkpoints=checkpoints, rules=rules, commit_s=0.001, stats_s=None
    ) as running:
        journal.await_as_far_as_can_be()
        threading.Event().wait(0.01)
        assert journal.is_as_far_as_can_be(), "more was read than may be"
        journal.mend()
        running.wait_until_caught_up(SOON_S)
    check_that_all_is_kept(journal, checkpoints)
