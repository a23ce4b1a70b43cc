"""A numbered event is stored once, whatever its producers send: again, in other pieces, too late or in one epoch.

The numbers of the model never wrap around; on the wire they do, soon. So a batch is less than half a round late.
"""

import itertools
import json
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from penstock.core.events.event import NewEvent
from penstock.core.producers import MODULUS, EpochClaim, OffsetRange, ProducerStamp
from penstock.errors import ClaimRefused, PenstockError, ProducerNotFound, ProducerUnsafe
from penstock.hub.hub import Hub
from penstock.hub.log.publish import AppendResult, ProducerName
from penstock.storage import open_store
from tests.exhaustive import examples, exhaustive
from tests.promises.line import Ids, Line
from tests.promises.scene import PATIENCE_SECONDS, commit_to_outbox, create, feed

PARTITIONS, HUBS = 2, 2
SCHEMA = {"type": "json_schema", "schema": '{"type":"object","properties":{"n":{"type":"integer"}}}'}
NAMES = itertools.count()
Place = tuple[int, str]
"""A partition and a producer group."""
Batch = tuple[int, int, Ids]
"""Of an epoch, from a number on."""
Told = AppendResult | PenstockError
PLACES = ((0, "g"), (0, "h"), (1, "g"))
places = st.sampled_from([*PLACES, PLACES[0]])
hubs = st.integers(0, HUBS - 1)
few = st.integers(1, 7)


class Running:
    """Hubs on one database, any of which can be started anew."""

    def __init__(self, url: str, modulus: int) -> None:
        self.url, self.modulus = url, modulus
        self.hubs = [self._hub() for _ in range(HUBS)]

    def restart(self, at: int) -> None:
        self.hubs[at].stop()
        self.hubs[at] = self._hub()

    def close(self) -> None:
        for hub in self.hubs:
            hub.stop()

    def _hub(self) -> Hub:
        store = open_store(self.url)
        store.migrate()
        hub = Hub(store, sequence_modulus=self.modulus)
        hub.start()
        return hub


class Numbered(RuleBasedStateMachine):
    """Producers that behave and producers that do not, at two hubs, and the logs as they should be."""

    def __init__(self, running: Running) -> None:
        super().__init__()
        self.running, self.modulus = running, running.modulus
        self.near = min(7, self.modulus // 2 - 1)
        self.name = f"numbered-{self.modulus}-{next(NAMES)}"
        self.created = False
        self.ids = itertools.count()
        self.lines: dict[Place, Line] = {}
        self.log: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.waiting: list[int] = []
        """The ids in the outbox, which are for the first partition."""
        self.told: dict[int, tuple[int, int]] = {}
        """The partition and the offset of each event, as its producer was told."""

    @initialize()
    def create(self) -> None:
        create(self.running.hubs[0], self.name, partitions=PARTITIONS, schema=SCHEMA)
        self.created = True
        for place in PLACES[:2]:  # Nothing is known of the third.
            self._send(place, 0, 0, 3)

    # Producers that behave

    @rule(place=places, at=hubs, count=few)
    def append(self, place: Place, at: int, count: int) -> None:
        self._send(place, at, 0, count)

    @rule(place=places, at=hubs, ups=few, count=few)
    def begin_an_epoch(self, place: Place, at: int, ups: int, count: int) -> None:
        self._send(place, at, 0, count, ups=ups)

    @rule(place=places, at=hubs, counts=st.lists(few, min_size=2, max_size=4))
    def send_several_without_waiting(self, place: Place, at: int, counts: list[int]) -> None:
        epoch, number, ids = self._batch(place, 0, sum(counts))
        ends = [0, *itertools.takewhile(lambda end: end <= len(ids), itertools.accumulate(counts))]
        batches = [(epoch, number + start, ids[start:end]) for start, end in itertools.pairwise(ends)]

        for batch, told in zip(batches, self._ask([(at, place, batch) for batch in batches]), strict=True):
            self._check(place, batch, told)

    # Producers that are not alone

    @rule(place=places, count=few, ups=st.sampled_from([0, 0, 1]))
    def send_copies_at_once(self, place: Place, count: int, ups: int) -> None:
        batch = self._batch(place, 0, count, ups=ups)

        for told in sorted(self._ask([(at, place, batch) for at in (0, 1, 0)]), key=is_late):
            self._check(place, batch, told)

    @rule(place=places, count=few)
    def send_others_at_once(self, place: Place, count: int) -> None:
        """Two have the same group and epoch: one of them is stored."""
        batches = [self._batch(place, 0, count) for _ in range(HUBS)]
        told = self._ask([(at, place, batch) for at, batch in enumerate(batches)])

        for batch, each in sorted(zip(batches, told, strict=True), key=lambda each: is_late(each[1])):
            self._check(place, batch, each)

    @rule(at=hubs, counts=st.tuples(few, few, few))
    def send_by_several_at_once(self, at: int, counts: tuple[int, int, int]) -> None:
        batches = {place: self._batch(place, 0, count) for place, count in zip(PLACES, counts, strict=True)}
        told = self._ask([(at, place, batch) for place, batch in batches.items()])

        for (place, batch), each in zip(batches.items(), told, strict=True):
            self._check(place, batch, each)

    # Producers that do not

    @rule(place=places, at=hubs, behind=few, count=few, trims=st.booleans())
    def send_again(self, *, place: Place, at: int, behind: int, count: int, trims: bool) -> None:
        line = self._line(place)
        there = len(line.stored.get(line.epoch, ()))
        self._send(place, at, -min(behind, there), count, trims=trims)

    @rule(place=places, at=hubs, behind=few, count=few, other=few, trims=st.booleans(), valid=st.booleans())
    def send_others_again(
        self, *, place: Place, at: int, behind: int, count: int, other: int, trims: bool, valid: bool
    ) -> None:
        self._send(place, at, 1 - behind, count, trims=trims, other=other, valid=valid)

    @rule(place=places, at=hubs, ahead=few, count=few, ups=st.sampled_from([0, 0, 1]))
    def send_too_early(self, *, place: Place, at: int, ahead: int, count: int, ups: int) -> None:
        self._send(place, at, ahead, count, ups=ups)

    @rule(place=places, at=hubs, back=st.integers(1, 3), off=st.integers(-7, 1), count=few)
    def send_of_an_old_epoch(self, *, place: Place, at: int, back: int, off: int, count: int) -> None:
        self._send(place, at, off, count, ups=self._back(place, back))

    # Claims

    @rule(
        place=places,
        at=hubs,
        level=st.sampled_from([None, None, -1, 0, 0, 1, 3]),
        starting=st.sampled_from([None, None, 0, 5, "next", "last"]),
        if_epoch=st.sampled_from([None, None, -1, 0]),
        claim_id=st.sampled_from([None, "a", "b"]),
    )
    def claim(
        self, *, place: Place, at: int, level: int | None, starting: Any, if_epoch: int | None, claim_id: str | None
    ) -> None:
        line = self._line(place)
        level, if_epoch = (None if each is None else max(0, line.epoch + each) for each in (level, if_epoch))
        starting = {"next": line.next % self.modulus, "last": self.modulus - 1}.get(starting, starting)
        epoch = line.epoch + 1 if level is None else level
        same = claim_id is not None and claim_id == line.claim_id
        goes_on = level == line.epoch and starting == line.next % self.modulus and not line.expired
        refused = (
            level not in (None, line.epoch)  # What is claimed again is another epoch than was had by that claim.
            if same
            else (if_epoch is not None and if_epoch != line.epoch) or (epoch <= line.epoch and not goes_on)
        )
        claim, producers = EpochClaim(level, starting, claim_id, if_epoch), self.running.hubs[at].producers

        if refused:
            with pytest.raises(ClaimRefused):
                producers.claim(self._who(place), claim)
            return
        state = producers.claim(self._who(place), claim).producer.state
        if not same and not goes_on:
            line.begin(epoch, starting or 0, claim_id)
        assert (state.epoch, state.next, state.is_expired) == (line.epoch, line.next, False)

    @rule(place=places, at=hubs, really=st.sampled_from([False, False, False, True]))
    def forget(self, place: Place, at: int, really: bool) -> None:
        line, producers = self._line(place), self.running.hubs[at].producers
        if not really:  # Else there would be little else.
            return
        if line.epoch < 0:
            with pytest.raises(ProducerNotFound):
                producers.forget(self._who(place))
            return
        producers.forget(self._who(place))
        line.expired, line.claim_id, line.forgotten = True, None, line.epoch

    # Others, and the hubs

    @rule(partition=st.integers(0, PARTITIONS - 1), at=hubs)
    def publish_without_numbers(self, partition: int, at: int) -> None:
        self._move()
        new = next(self.ids)
        event = NewEvent.of(json.dumps({"n": new}).encode(), partition=partition)
        assert self.running.hubs[at].log.publish(self.name, [event]).next_offsets == {
            partition: len(self.log[partition]) + 1
        }
        self.log[partition].append(new)

    @rule()
    def commit_to_the_outbox(self) -> None:
        self.waiting.append(next(self.ids))
        commit_to_outbox(self.running.url, {"n": self.waiting[-1]}, name=self.name)

    @rule(at=hubs)
    def restart(self, at: int) -> None:
        self.running.restart(at)

    # What is told

    @rule(place=places, at=hubs, back=st.integers(0, 3), off=st.integers(-7, 2), count=few)
    def ask(self, *, place: Place, at: int, back: int, off: int, count: int) -> None:
        line, producers = self._line(place), self.running.hubs[at].producers
        if line.epoch < 0:
            with pytest.raises(ProducerNotFound):
                producers.find(self._who(place))
            return
        found = producers.find(self._who(place)).producer
        assert (found.state.epoch, found.state.is_expired) == (line.epoch, line.expired)
        if not line.expired:
            offsets = [offset for _, offset in line.stored[line.epoch].values()]
            assert (found.state.next, found.state.last_offset) == (line.next, max(offsets, default=None))
        epoch, number, ids = self._batch(place, off, count, ups=self._back(place, back))

        told, committed = producers.find_presence(self._who(place), number % self.modulus, len(ids), epoch)

        assert told == epoch
        self._check_committed(line, (epoch, number, len(ids)), committed.whole, spread(committed.ranges))

    @rule(at=hubs)
    def read(self, at: int) -> None:
        self._move()

        logs = [[each["n"] for each in feed(self.running.hubs[at], p, self.name)] for p in range(PARTITIONS)]

        assert logs == self.log
        found = {n: (p, offset) for p, log in enumerate(logs) for offset, n in enumerate(log)}
        assert len(found) == sum(map(len, logs)), "an event is there twice"
        assert found.items() >= self.told.items(), "an event is not where its producer was told"
        for (partition, _), line in self.lines.items():
            numbered = [event for epoch in sorted(line.stored) for _, event in sorted(line.stored[epoch].items())]
            assert [logs[partition][offset] for _, offset in numbered] == [n for n, _ in numbered]
            assert [offset for _, offset in numbered] == sorted(offset for _, offset in numbered)

    def teardown(self) -> None:
        if self.created:
            self.read(0)

    def _line(self, place: Place) -> Line:
        return self.lines.setdefault(place, Line())

    def _who(self, place: Place) -> ProducerName:
        return ProducerName(self.name, *place)

    def _move(self) -> None:
        self.log[0] += self.waiting
        self.waiting = []

    def _batch(
        self, place: Place, off: int, count: int, *, ups: int = 0, other: int | None = None, valid: bool = True
    ) -> Batch:
        """Return a batch so far *off* the next number of an epoch: the events that are there, and then new ones."""
        line = self._line(place)
        epoch = max(0, max(0, line.epoch) + ups)
        number = line.ending(epoch) + max(-self.near, min(self.near + 1, off))
        stored = line.stored.get(epoch, {})
        ids: list[int | str] = [
            stored[at][0] if at in stored else next(self.ids) for at in range(number, number + min(count, self.near))
        ]
        if other is not None:
            ids[other % len(ids)] = next(self.ids) if valid else str(next(self.ids))
        return epoch, number, ids

    def _back(self, place: Place, back: int) -> int:
        """Return how far behind the current epoch another is: one that there was, where there was any."""
        line = self._line(place)
        before = [epoch for epoch in line.stored if epoch < line.epoch]
        return (before[-(back % len(before))] if before else line.epoch - back) - line.epoch if back else 0

    def _send(self, place: Place, at: int, off: int, count: int, *, trims: bool = False, **how: Any) -> None:
        batch = self._batch(place, off, count, **how)
        [told] = self._ask([(at, place, batch)], trims=trims)
        self._check(place, batch, told, trims=trims)

    def _ask(self, batches: Sequence[tuple[int, Place, Batch]], *, trims: bool = False) -> list[Told]:
        """Send batches, each to one of the hubs, all before any is answered."""
        self._move()
        told = [
            self.running.hubs[at].producers.submit(
                self._who(place),
                ProducerStamp(epoch, number % self.modulus),
                [NewEvent.of(json.dumps({"n": each}).encode()) for each in ids],
                trims=trims,
            )
            for at, place, (epoch, number, ids) in batches
        ]
        return [each.exception(PATIENCE_SECONDS) or each.result() for each in told]  # type: ignore[misc]

    def _check(self, place: Place, batch: Batch, told: Told, *, trims: bool = False) -> None:
        """Assert that an answer is the verdict of the model, and apply it to the model."""
        (partition, _), (epoch, number, ids), line = place, batch, self._line(place)
        verdict, known = line.verdict(epoch, number, ids, trims=trims)
        if verdict in ("appended", "trimmed") and any(isinstance(each, str) for each in ids):
            verdict = "invalid-event"
        if not isinstance(told, AppendResult):
            assert told.code == verdict, told
            if isinstance(told, ProducerUnsafe):
                self._check_fields(line, batch, told)
            return
        produced = told.produced
        assert produced is not None
        assert produced.outcome == verdict
        if verdict != "duplicate":
            if epoch != line.epoch:
                line.begin(epoch)
            for at, event in enumerate(ids[known:], number + known):
                assert isinstance(event, int)
                line.stored[epoch][at] = event, len(self.log[partition])
                self.log[partition].append(event)
        numbers = (number % self.modulus, (number + len(ids) - 1) % self.modulus, line.next % self.modulus)
        assert (produced.epoch, produced.first, produced.last, produced.next) == (epoch, *numbers)
        assert spread(produced.ranges) == line.found(epoch, number, ids)
        for event, offset in zip(ids, spread(produced.ranges), strict=True):
            assert isinstance(event, int)
            assert self.told.setdefault(event, (partition, offset)) == (partition, offset)

    def _check_fields(self, line: Line, batch: Batch, told: ProducerUnsafe) -> None:
        epoch, number, ids = batch
        stands = {
            "current_epoch": line.epoch if line.epoch >= 0 else None,
            "next_sequence": line.next % self.modulus if line.epoch >= 0 and not line.expired else None,
            "received": number % self.modulus,
        }
        if told.code == "sequence-gap":
            stands["expected"] = line.next % self.modulus if epoch == line.epoch else 0
        if told.code == "payload-mismatch":
            stored = line.stored[epoch]
            differs_at = next(at for at, event in enumerate(ids, number) if stored[at][0] != event)
            stands["differs_at"] = differs_at % self.modulus
        assert told.fields.items() >= stands.items()
        ranges = [OffsetRange(**each) for each in told.ranges]
        self._check_committed(line, (epoch, number, ids), told.committed, spread(ranges))

    @staticmethod
    def _check_committed(
        line: Line, batch: tuple[int, int, Ids | int], whole: bool | None, offsets: Sequence[int]
    ) -> None:
        """Assert that the hub tells which events are stored, where it knows, and says nothing false elsewhere."""
        epoch, number, events = batch
        there = line.found(epoch, number, events)
        is_whole = len(there) == (events if isinstance(events, int) else len(events))
        if line.is_known(epoch, number):
            assert (whole, offsets) == (is_whole, there)
        else:
            assert whole in (is_whole, None)
            assert offsets in (there, [])


def spread(ranges: Sequence[OffsetRange]) -> list[int]:
    return [offset for each in ranges for offset in range(each.first, each.last + 1)]


def is_late(told: Told) -> bool:
    """Tell whether somebody else has been first."""
    return not isinstance(told, AppendResult) or told.produced is None or told.produced.outcome == "duplicate"


@pytest.mark.parametrize("modulus", [8, exhaustive(16), MODULUS], ids=["8", "16", "2**53"])
def test_log_agrees_with_a_model_of_producers(url: str, modulus: int) -> None:
    count = examples(8, 150) if url.startswith("sqlite") else examples(4, 60)
    with closing(Running(url, modulus)) as running:
        run_state_machine_as_test(
            lambda: Numbered(running),
            settings=settings(
                max_examples=count,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=(Phase.explicit, Phase.reuse, Phase.generate),  # To shrink forty steps takes minutes.
            ),
        )
