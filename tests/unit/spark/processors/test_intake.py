from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import permutations
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.processing.engine.engine import Engine
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.tranche import Batch, Position
from penstock.processing.outcomes import Outcome, done_to, retry
from penstock.processing.snapshot import Tally
from penstock.processing.sources.source import ReadRequest
from penstock.spark.processors.calling import CallAll
from penstock.spark.processors.reading import EVENTS
from penstock.spark.processors.results import RESULTS, results_of
from penstock.spark.processors.rounds import ALL, Planned, ResultIntake, SpanItem
from penstock.spark.processors.sources.source import Look, PlannedRead, Then, TrancheRange
from tests.exhaustive import seeds

STREAMS = "abcd"
SEEDS = seeds(8, 400)


class Log:
    """Tranches, and the streams that their events are of. An event's index is its place in its tranche."""

    def __init__(self, tranches: Mapping[str, str]) -> None:
        self.streams = {tranche: list(streams) for tranche, streams in tranches.items()}

    @property
    def tranches(self) -> Collection[str]:
        return [*self.streams]

    def check(self, positions: Mapping[str, Position]) -> None:
        assert all(int(position) <= len(self.streams[tranche]) for tranche, position in positions.items())

    def stretch(self, tranche: str, position: Position | None, events_max: int) -> TrancheRange | None:
        start, last = int(position or 0), len(self.streams[tranche])
        end = min(last, start + events_max)
        return TrancheRange(tranche, start, end, end - start, end, is_tail=end == last) if end > start else None

    def numbering(self, tranche: str) -> str:
        return tranche

    def reading(
        self, plan: Any, new: Sequence[TrancheRange], again: Sequence[TrancheRange], then: Then | None
    ) -> PlannedRead:
        raise NotImplementedError("nothing is read by Spark")

    def table(self, planned: Planned) -> pa.Table:
        """Return what executors read of a round."""
        rows = [
            (self.streams[each.tranche][at], planned.plan.numbers[each.tranche], is_again, at)
            for stretches, is_again in ((planned.new.values(), False), (planned.again, True))
            for each in stretches
            for at in range(each.start, each.end)
        ]
        wanted = [row for row in rows if not row[2] or row[0] in planned.plan.again]
        names = ("stream", "place", "again", "offset")
        found = [dict(zip(names, row, strict=True)) | {"key": None, "kind": "k", "data": "null"} for row in wanted]
        return pa.Table.from_pylist(found, EVENTS)


class Rounds:
    """The rounds of a processor without Spark: executors are here, and chance tells in which order tranches are had."""

    def __init__(self, log: Log, rules: Rules, chance: Random) -> None:
        self.log = log
        self.chance = chance
        self.engine = Engine(rules, chance, is_dense=False)
        self.intake = ResultIntake(self.engine, Tally(), lambda: self.now, passes_over_loss=False)
        self.now = 0.0
        self.handled: list[tuple[str, str, int]] = []
        self.does: Any = lambda _: None

    def __call__(self, stream: str, events: Sequence[Any]) -> Any:
        """Do what `does` says, and write down what is done."""
        outcome: Outcome | None = self.does(events)
        end = events[-1].next if outcome is None or outcome.next is None else outcome.next
        self.handled += [(stream, event.tranche, event.index) for event in events if event.index < end]
        return outcome

    def survey(self) -> None:
        """Open what is new."""
        for tranche in {*self.log.tranches} - self.engine.positions().keys():
            self.engine.open(tranche, 0)

    def step(self, order: Iterable[str] = ()) -> None:
        """Carry out a round, in which tranches are wanted in this order, or any."""
        engine = self.engine
        self.survey()
        for replay in engine.list_replays():
            streams, since = self.log.streams[replay.tranche], int(replay.since)
            page = streams[since : since + 3]
            items = [SpanItem(stream, at, at + 1, 1, None) for at, stream in enumerate(page, since)]
            end = since + len(page)
            engine.replay(replay, Batch(replay.tranche, end, items, is_tail=end == len(streams)), self.now)
        again = engine.take(ALL, self.now)
        names = [*order] or self.chance.sample([*self.log.tranches], len(self.log.tranches))
        wants = {name: ReadRequest(engine.tranche(name).read, room) for name in names if (room := engine.room(name))}
        planned = Planned.of(engine, self.look, wants, again)
        told = CallAll(planned.plan, self, None)(self.log.table(planned).to_batches())
        self.intake.take_in(planned, results_of(pa.Table.from_batches(told, RESULTS)), again)

    @property
    def look(self) -> Look:
        return self.log

    @property
    def is_over(self) -> bool:
        """Return whether all events were read and handled."""
        ends = {tranche: len(streams) for tranche, streams in self.log.streams.items()}
        return self.engine.positions() == ends and not self.engine.list_known()

    def of(self, stream: str, tranche: str) -> list[int]:
        """Return what was handled of a stream in a tranche."""
        return [index for name, place, index in self.handled if (name, place) == (stream, tranche)]

    def check(self) -> None:
        """Check that no position has passed what is neither handled nor parked, and that nothing comes out of order."""
        parked = self.engine.parking.streams
        for tranche, position in self.engine.positions().items():
            for stream in STREAMS:
                indices = [at for at, name in enumerate(self.log.streams[tranche]) if name == stream]
                handled, waits = self.of(stream, tranche), parked.get(stream, {}).get(tranche)
                assert handled == indices[: len(handled)], f"{stream} in {tranche}"
                end = int(position) if waits is None else min(int(position), waits.index)
                assert len(handled) >= sum(index < end for index in indices), f"{stream} in {tranche}, at {position}"


@pytest.mark.parametrize("order", [*permutations(("p", "q", "r"))])
def test_stream_in_three_tranches_is_handled_once_and_in_order_for_any_reading_order(
    order: Sequence[str],
) -> None:
    rounds = Rounds(Log({"r": "aba", "p": "aab", "q": "ba"}), Rules(), Random(0))
    for _ in range(3):
        rounds.step(order)
        rounds.check()

    assert [place[1:] for place in rounds.handled if place[0] == "a"] == [
        ("r", 0), ("r", 2), ("p", 0), ("p", 1), ("q", 1)
    ]  # fmt: skip
    assert rounds.is_over


@pytest.mark.parametrize("order", [*permutations(("p", "q", "r"))])
def test_failing_stream_is_parked_together_with_its_events_in_other_tranches(order: Sequence[str]) -> None:
    rounds = Rounds(Log({"p": "ab", "q": "ba", "r": "a"}), Rules(attempts_max=1, exhausted="park"), Random(0))

    def fails(events: Sequence[Any]) -> None:
        if events[0].stream == "a":
            raise ValueError("broken")

    rounds.does = fails
    rounds.step(order)
    rounds.step(order)

    parked = rounds.engine.parking.streams
    assert {tranche: (each.index, each.events) for tranche, each in parked["a"].items()} == {
        "p": (0, 1), "q": (1, 1), "r": (0, 1)
    }  # fmt: skip
    assert rounds.engine.positions() == {"p": 2, "q": 2, "r": 1}
    rounds.does = lambda _: None
    rounds.engine.retry("a")
    for _ in range(9):
        rounds.step(order)
        rounds.check()
    assert rounds.is_over


@pytest.mark.parametrize("seed", SEEDS)
def test_streams_in_many_tranches_are_handled_exactly_once_for_random_outcomes(seed: int) -> None:
    chance = Random(seed)
    parks = seed % 3 == 0
    rules = Rules(
        events_per_call=chance.randrange(1, 5),
        events_ahead=chance.randrange(2, 12),
        batches_ahead=chance.randrange(1, 4),
        attempts_max=chance.randrange(1, 3) if parks else None,
        exhausted="park" if parks else "stop",
    )
    rounds = Rounds(Log({"p": "", "q": ""}), rules, chance)

    def does(events: Sequence[Any]) -> Outcome | None:
        drawn = chance.random()
        if drawn < 0.2:
            raise ValueError("as chance has it")
        if drawn < 0.3:
            return retry(1.0)
        return done_to(chance.choice(events).next) if drawn < 0.5 else None

    rounds.does = does
    for number in range(20):
        if number in (6, 12):
            rounds.log.streams[f"added {number}"] = []
        for streams in rounds.log.streams.values():
            streams.extend(chance.choices(STREAMS, k=chance.randrange(6)))
        go_on(rounds)
    rounds.does = lambda _: None
    for _ in range(300):
        go_on(rounds)
        if rounds.is_over:
            return
    pytest.fail(f"it does not come to an end: {rounds.engine.positions()}, {rounds.engine.list_known()}")


def go_on(rounds: Rounds) -> None:
    """Have a round, and all come again that waits or is parked."""
    rounds.step()
    rounds.check()
    rounds.now += 1_000
    for stream in [*rounds.engine.parking.streams]:
        rounds.engine.retry(stream)
