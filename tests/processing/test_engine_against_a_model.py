"""The engine beside a model that keeps everything, for random events and outcomes of handlers."""

import sys
from collections import defaultdict
from collections.abc import Set as AbstractSet
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.processing.engine.stream import Call
from penstock.processing.engine.tranche import Batch, split_batch
from penstock.processing.outcomes import Failure, Outcome, done, done_to, retry, skip_to
from tests.exhaustive import examples
from tests.unit.processing.engine.items import Thing, engine, indices

TRANCHES = ("a", "b", "c")
STREAMS = st.integers(0, 4)
ROAMING = {"a": 2000, "b": 1000, "c": 3000}
"""Where the indices begin of the events that a stream has in one tranche which lies in all of them."""


class WhateverHappens(RuleBasedStateMachine):
    """Streams whose indices have gaps, as a hub's feeds have them: each in one tranche, but for one of them."""

    is_dense = False
    parks = False
    skips = (1, 4)
    """How far behind a call handlers skip."""

    @initialize(
        concurrency=st.integers(1, 4), batches=st.integers(1, 4), events=st.integers(1, 12), per_call=st.integers(1, 5),
        attempts=st.integers(1, 2),
    )  # fmt: skip
    def begin(self, concurrency: int, batches: int, events: int, per_call: int, attempts: int = 1) -> None:
        kept = {"exhausted": "park", "attempts_max": attempts} if self.parks else {}
        self.rules = {
            "concurrency": concurrency, "batches_ahead": batches, "events_ahead": events, "events_per_call": per_call,
            **kept,
        }  # fmt: skip
        self.engine = engine(*TRANCHES, is_dense=self.is_dense, **self.rules)
        self.now = 0.0
        self.read: dict[str, list[Batch]] = defaultdict(list)
        self.undone: dict[str, list[int]] = defaultdict(list)
        self.next: dict[str, int] = {}
        self.skipped: dict[str, int] = {}
        """Of streams: below which index nothing is handed out when it comes."""
        self.uncounted: set[str] = set()
        """Streams that are parked, of whose events some were skipped unread: how many, nobody knows."""
        self.calls: list[Call] = []
        self.positions = self.engine.positions()

    @precondition(lambda self: any(map(self.engine.room, TRANCHES)))
    @rule(
        tranche=st.sampled_from(TRANCHES),
        picks=st.lists(st.tuples(STREAMS, st.integers(1, 3)), max_size=8),
        part=st.integers(1, 8),
    )
    def read_on(self, tranche: str, picks: list[tuple[int, int]], part: int = 8) -> None:
        room = self.engine.room(tranche)
        if not room:
            return
        items = []
        for number, step in picks[:room]:
            stream, base = f"{tranche}{number}", 0
            if number == 0 and not self.is_dense:
                stream, base = "roaming", ROAMING[tranche]
            line = self.line(stream, base)
            index = self.next.get(line, base) + (0 if self.is_dense else step - 1)
            self.next[line] = index + 1
            items.append(Thing(stream, index))
            self.come(tranche, stream, index)
        before = int(self.read[tranche][-1].end) if self.read[tranche] else 0
        batch = Batch(tranche, before + len(items) + 1, items)
        for each in split_batch(batch, part, lambda item: before + 1 + items.index(item)):  # type: ignore[arg-type]
            self.read[tranche].append(each)
            self.engine.ingest(each, self.now)

    def come(self, tranche: str, stream: str, index: int) -> None:  # noqa: ARG002 - For those who live again.
        """Have an event wait, unless it is skipped. The skip is forgotten with the first event that is not."""
        line, skipped = self.line(stream, index), self.skipped.get(stream, 0)
        if index < skipped and line == self.line(stream, skipped):
            return
        self.skipped.pop(stream, None)
        self.undone[line].append(index)

    @precondition(lambda self: self.is_dense and any(map(self.engine.room, TRANCHES)))
    @rule(tranche=st.sampled_from(TRANCHES), data=st.data())
    def read_again(self, tranche: str, data: st.DataObject) -> None:
        """Events that have come before are in a batch again, as sources bring them that deliver at least once."""
        if not self.engine.room(tranche):
            return
        known = [item for batch in self.read[tranche] for item in batch.items]
        items: list[Any] = data.draw(st.lists(st.sampled_from(known), max_size=4)) if known else []
        before = self.read[tranche][-1].end if self.read[tranche] else 0
        batch = Batch(tranche, int(before) + 1, items)
        self.read[tranche].append(batch)
        self.engine.ingest(batch, self.now)

    @precondition(lambda self: self.is_at_work)
    @rule(count=st.integers(1, 4), after=st.sampled_from([0.0, 1.0, 100.0]))
    def take(self, count: int, after: float = 0.0) -> None:
        self.now += after
        for call in self.engine.take(min(count, self.engine.rules.concurrency - len(self.calls)), self.now):
            assert call.stream not in {each.stream for each in self.calls}, "two calls at once"
            line = self.line(call.stream, call.index)
            assert indices(call) == self.undone[line][: len(call.events)], "a hole, or out of order"
            assert len(call.events) <= self.engine.rules.events_per_call
            self.calls.append(call)

    @precondition(lambda self: self.is_at_work)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        if not self.calls:
            self.take(count=1, after=1.0)
        if self.calls:
            self.end(self.calls[data.draw(st.integers(0, len(self.calls) - 1))], data)

    def end(self, call: Call, data: st.DataObject) -> None:
        """Have something come of a call."""
        results: list[Outcome | Failure] = [
            done(), done(), done_to(call.events[len(call.events) // 2].index), retry(1.0), done_to(call.index),
            *[skip_to(call.next + more) for more in self.skips],
            *[Failure("ValueError", "no")] * (4 if self.parks else 2),
        ]  # fmt: skip
        result = data.draw(st.sampled_from(results))
        self.calls.remove(call)  # Not before the last draw: any of them may be the end of the run.
        self.engine.settle(call, result, self.now, 0.001)
        if isinstance(result, Outcome):
            self.done(call, call.next if result.next is None else result.next)

    @property
    def is_at_work(self) -> bool:
        """Whether any event is ready or with a handler."""
        return bool(self.calls or self.engine.parking.retried) or not self.engine.is_idle

    def done(self, call: Call, to: int) -> None:
        line = self.line(call.stream, call.index)
        self.undone[line] = [index for index in self.undone[line] if index >= to]
        if to > self.come_to(line) and not any(self.undone[each] for each in self.lines(call.stream)):
            self.skipped[call.stream] = to  # Else events wait whose indices have nothing to do with it.

    def come_to(self, line: str) -> int:
        """Return behind which index nothing has come yet."""
        return self.next[line]

    def lines(self, stream: str) -> list[str]:
        """Return the lines of a stream: the groups of its events whose indices belong together."""
        return [line for line in self.next if line[:-1] == stream]

    @staticmethod
    def line(stream: str, index: int) -> str:
        """Return what the events are called whose indices belong together."""
        return f"{stream}{index // 1000}"

    def holds(self, item: Thing) -> bool:
        """Tell whether an event holds its batch back."""
        return item.index in self.undone[self.line(item.stream, item.index)]

    @invariant()
    def positions_are_honest(self) -> None:
        if not hasattr(self, "engine"):
            return
        for tranche in TRANCHES:
            expected, running, is_held = 0, 0, False
            for batch in self.read[tranche]:
                is_held = is_held or any(map(self.holds, batch.items))
                running += is_held and not batch.is_part
                expected = expected if is_held else int(batch.end)
            assert self.engine.positions()[tranche] == expected
            assert self.engine.tranche(tranche).batches == running <= self.engine.rules.batches_ahead
        assert all(self.engine.positions()[each] >= self.positions[each] for each in TRANCHES)  # type: ignore[operator]
        self.positions = self.engine.positions()

    def teardown(self) -> None:
        """Handle all events that are left: none is lost, and nothing is kept.

        Not where the run was broken off, by what was found or since nothing could be drawn any more: the step it was in
        may have taken a call and not noted it, and nobody would ever settle that.
        """
        if not hasattr(self, "engine") or sys.exception() is not None:
            return
        for call in self.calls:
            self.engine.settle(call, done(), self.now, 0.001)
            self.done(call, call.next)
        self.calls = []
        beginning = self.now
        while self.goes_on():
            assert self.now < beginning + 1e5, "it has come to a standstill"
            self.now += 100.0
            self.take(1)
            for call in self.calls:
                self.engine.settle(call, done(), self.now, 0.001)
                self.done(call, call.next)
            self.calls = []
        assert not any(self.undone.values())
        assert not self.engine.parking.streams
        self.check_known(self.engine.list_known(), self.skipped.keys())

    def check_known(self, known: AbstractSet[str], skipping: AbstractSet[str]) -> None:
        """Check which streams are remembered when all is done."""
        assert known >= skipping if self.is_dense else known == skipping, "who skips what is to come stays known"

    def goes_on(self) -> bool:
        return not self.engine.is_idle


class WhateverIsParked(WhateverHappens):
    """The same where streams are parked that have failed once or twice, tried again, and parked again."""

    parks = True

    def holds(self, item: Thing) -> bool:
        return item.stream not in self.engine.parking.streams and super().holds(item)

    def done(self, call: Call, to: int) -> None:
        super().done(call, to)
        if to > call.next and call.stream in self.engine.parking.streams:
            self.uncounted.add(call.stream)

    @precondition(lambda self: self.engine.parking.streams)
    @rule(data=st.data(), calls=st.integers(0, 6))
    def retry(self, data: st.DataObject, calls: int) -> None:
        """Have a stream tried again, and as a rule something come of that: seldom would all steps meet by chance."""
        stream = data.draw(st.sampled_from(sorted(self.engine.parking.streams)))
        self.engine.retry(stream)
        for _ in range(calls):
            self.replay()
            self.take(count=4, after=1.0)
            if self.calls:
                self.end(min(self.calls, key=lambda call: call.stream != stream), data)

    @precondition(lambda self: self.engine.parking.streams)
    @rule(data=st.data(), is_sure=st.sampled_from([False, False, True]))
    def drop(self, data: st.DataObject, is_sure: bool) -> None:
        stream = data.draw(st.sampled_from(sorted(self.engine.parking.streams)))
        if is_sure and stream not in {call.stream for call in self.calls}:
            lines = self.parked_lines(stream)
            self.engine.drop(stream)
            for line in lines:
                self.undone[line] = []

    def parked_lines(self, stream: str) -> list[str]:
        """Return those lines of a parked stream that are parked."""
        return self.lines(stream)

    @precondition(lambda self: self.engine.list_replays())
    @rule()
    def replay(self) -> None:
        for replay in self.engine.list_replays():
            behind = [batch for batch in self.log(replay.tranche) if batch.end > replay.since]
            found = behind[0] if behind else Batch(replay.tranche, replay.since, [])
            self.engine.replay(replay, found._replace(is_tail=len(behind) < 2), self.now)

    def log(self, tranche: str) -> list[Batch]:
        """Return all that there is of a tranche."""
        return self.read[tranche]

    @invariant()
    def what_is_parked_is_known(self) -> None:
        if not hasattr(self, "engine"):
            return
        self.uncounted &= self.engine.parking.streams.keys()
        for stream, spans in self.engine.parking.streams.items():
            for parked in spans.values():
                waiting = self.undone[self.line(parked.stream, parked.index)]
                left = [index for index in waiting if parked.index <= index < parked.next]
                is_less = stream in self.uncounted and len(left) < parked.events
                assert len(left) == parked.events or is_less, "parked events are miscounted"

    def goes_on(self) -> bool:
        for stream in self.engine.parking.streams:
            self.engine.retry(stream)
        self.replay()
        return bool(self.engine.parking.streams) or super().goes_on()


class WhateverHappensToNumberedStreams(WhateverHappens):
    """The same where indices have no gaps, and events come again."""

    is_dense = True


class WhateverNumberedStreamsAreParked(WhateverIsParked):
    """Those that are parked, where indices have no gaps, and events come again."""

    is_dense = True


CHECKED = settings(max_examples=examples(20, 300), stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow])
TestWhateverHappens = WhateverHappens.TestCase
TestWhateverHappens.settings = CHECKED
TestParkedStreams = WhateverIsParked.TestCase
TestParkedStreams.settings = CHECKED
TestNumberedStreams = WhateverHappensToNumberedStreams.TestCase
TestNumberedStreams.settings = CHECKED
TestParkedNumberedStreams = WhateverNumberedStreamsAreParked.TestCase
TestParkedNumberedStreams.settings = CHECKED
