"""Whatever comes and whatever handlers say: what the engine promises, beside a model that keeps everything."""

from collections import defaultdict
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.processing.engine.call import Call
from penstock.processing.engine.item import Batch
from penstock.processing.engine.outcome import Failure, Outcome, done, done_to, retry
from tests.unit.processing.engine.items import Thing, engine, indices

TRANCHES = ("a", "b", "c")
STREAMS = st.integers(0, 4)


class WhateverHappens(RuleBasedStateMachine):
    """Streams whose indices have gaps, each in one tranche, as a hub's feeds have them."""

    is_dense = False

    @initialize(
        concurrency=st.integers(1, 4), batches=st.integers(1, 4), events=st.integers(1, 12), per_call=st.integers(1, 5)
    )
    def begin(self, concurrency: int, batches: int, events: int, per_call: int) -> None:
        self.engine = engine(
            *TRANCHES, concurrency=concurrency, batches_ahead=batches, events_ahead=events, events_per_call=per_call,
            is_dense=self.is_dense,
        )  # fmt: skip
        self.now = 0.0
        self.read: dict[str, list[Batch]] = defaultdict(list)
        self.undone: dict[str, list[int]] = defaultdict(list)
        self.next: dict[str, int] = defaultdict(int)
        self.calls: list[Call] = []
        self.positions = self.engine.positions()

    @rule(tranche=st.sampled_from(TRANCHES), picks=st.lists(st.tuples(STREAMS, st.integers(1, 3)), max_size=8))
    def read_on(self, tranche: str, picks: list[tuple[int, int]]) -> None:
        room = self.engine.room(tranche)
        if not room:
            return
        items = []
        for number, step in picks[:room]:
            stream = f"{tranche}{number}"
            self.next[stream] += 1 if self.is_dense else step
            items.append(Thing(stream, self.next[stream] - 1))
            self.undone[stream].append(self.next[stream] - 1)
        before = self.read[tranche][-1].end if self.read[tranche] else 0
        batch = Batch(tranche, int(before) + len(items) + 1, items)
        self.read[tranche].append(batch)
        self.engine.ingest(batch, self.now)

    @rule(tranche=st.sampled_from(TRANCHES), data=st.data())
    def read_again(self, tranche: str, data: st.DataObject) -> None:
        """Events that have come before are in a batch again, as sources bring them that deliver at least once."""
        if not self.is_dense or not self.engine.room(tranche):
            return
        known = [item for batch in self.read[tranche] for item in batch.items]
        items: list[Any] = data.draw(st.lists(st.sampled_from(known), max_size=4)) if known else []
        before = self.read[tranche][-1].end if self.read[tranche] else 0
        batch = Batch(tranche, int(before) + 1, items)
        self.read[tranche].append(batch)
        self.engine.ingest(batch, self.now)

    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        for call in self.engine.take(min(count, self.engine.rules.concurrency - len(self.calls)), self.now):
            assert call.stream not in {each.stream for each in self.calls}, "two calls at once"
            assert indices(call) == self.undone[call.stream][: len(call.events)], "a hole, or out of order"
            assert len(call.events) <= self.engine.rules.events_per_call
            self.calls.append(call)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        call = self.calls.pop(data.draw(st.integers(0, len(self.calls) - 1)))
        results: list[Outcome | Failure] = [
            done(), done(), done_to(call.events[len(call.events) // 2].index), retry(1.0), done_to(call.index),
            Failure("ValueError", "no"), Failure("ValueError", "no"),
        ]  # fmt: skip
        result = data.draw(st.sampled_from(results))
        self.engine.settle(call, result, self.now, 0.001)
        if isinstance(result, Outcome):
            to = call.next if result.next is None else result.next
            self.undone[call.stream] = [index for index in self.undone[call.stream] if index >= to]

    @rule(seconds=st.sampled_from([0.5, 1.0, 100.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def positions_are_honest(self) -> None:
        if not hasattr(self, "engine"):
            return
        for tranche in TRANCHES:
            expected, running = 0, 0
            for batch in self.read[tranche]:
                if running or any(item.index in self.undone[item.stream] for item in batch.items):
                    running += 1
                else:
                    expected = int(batch.end)
            assert self.engine.positions()[tranche] == expected
            assert self.engine.tranche(tranche).batches == running <= self.engine.rules.batches_ahead
        assert all(self.engine.positions()[each] >= self.positions[each] for each in TRANCHES)  # type: ignore[operator]
        self.positions = self.engine.positions()

    def teardown(self) -> None:
        """Let all that is left be handled: nothing is lost, and nothing is kept."""
        if not hasattr(self, "engine"):
            return
        for call in self.calls:
            self.engine.settle(call, done(), self.now, 0.001)
            self.undone[call.stream] = [index for index in self.undone[call.stream] if index >= call.next]
        self.calls = []
        while not self.engine.is_idle:
            self.now += 100.0
            self.take(1)
            call = self.calls.pop()
            self.engine.settle(call, done(), self.now, 0.001)
            self.undone[call.stream] = [index for index in self.undone[call.stream] if index >= call.next]
        assert not any(self.undone.values())
        assert self.is_dense or not self.engine._streams


class WhateverHappensToNumberedStreams(WhateverHappens):
    """The same where indices have no gaps, and events come again."""

    is_dense = True


CHECKED = settings(max_examples=300, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow])
TestWhateverHappens = WhateverHappens.TestCase
TestWhateverHappens.settings = CHECKED
TestNumberedStreams = WhateverHappensToNumberedStreams.TestCase
TestNumberedStreams.settings = CHECKED
