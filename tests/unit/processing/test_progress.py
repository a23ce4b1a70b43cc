"""Progress of a processor: requests, replays of parked streams, and approvals of gaps."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from penstock.processing import InlineProcessor
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.stream import Call
from penstock.processing.outcomes import Failure
from penstock.processing.progress import UNSETTLED, Progress, group_replays
from penstock.processing.runners.processor import approve_missing
from penstock.processing.sources import Batch
from penstock.processing.sources.memory import MemorySource
from penstock.processing.sources.source import ReadRequest
from penstock.processing.stream_event import StreamEvent


def fail(engine: Engine, call: Call) -> None:
    engine.settle(call, Failure("ValueError", "it cannot be"), 0.0, 0.0)


def test_request_from_before_a_failed_retry_is_done_with() -> None:
    source, checkpoints = MemorySource(), MemoryCheckpoints()
    source.append("S", [0])
    engine = Engine(Rules(attempts_max=1, exhausted="park"), Random(0), is_dense=True)
    progress = Progress(engine, source, checkpoints)
    progress.open(progress.find_new_tranches())
    [batch] = source.read(progress.plan_reads(), 0.0)
    engine.ingest(batch, 0.0)
    fail(engine, *engine.take(1, 0.0))
    progress.commit()
    checkpoints.ask("S", "retry")
    progress.commit()
    [replay] = progress.plan_replays()
    engine.replay_all(replay.parked, progress.reread(replay), 0.0)
    [call] = engine.take(1, 0.0)

    advance = progress.find_advance()
    requests = progress.write(advance)  # As another thread does, while calls go on.
    assert requests == {("S", "0"): "retry"}
    fail(engine, call)
    progress.confirm(advance, requests)
    progress.commit()

    assert not progress.retried, "nobody has asked for that again"
    assert progress.has_parked


def test_progress_is_settled_once_retries_that_were_known_are_committed() -> None:
    source, checkpoints = MemorySource(), MemoryCheckpoints()
    source.append("S", [0])
    engine = Engine(Rules(attempts_max=1, exhausted="park"), Random(0), is_dense=True)
    progress = Progress(engine, source, checkpoints)
    assert progress.settled_at_poll == UNSETTLED, "nobody has looked yet"
    progress.open(progress.find_new_tranches())
    progress.commit()
    assert progress.settled_at_poll == float("inf"), "of what is parked nothing can be wanted"
    [batch] = source.read(progress.plan_reads(), 0.0)
    engine.ingest(batch, 0.0)
    fail(engine, *engine.take(1, 0.0))
    advance = progress.find_advance()
    assert progress.settled_at_poll == UNSETTLED, "before others can see that a stream is parked"
    progress.confirm(advance, progress.write(advance))
    assert progress.settled_at_poll == progress.poll_count == 2

    checkpoints.ask("S", "retry")
    progress.commit()
    assert progress.settled_at_poll == UNSETTLED, "it is tried again"
    [replay] = progress.plan_replays()
    engine.replay_all(replay.parked, progress.reread(replay), 0.0)
    fail(engine, *engine.take(1, 0.0))
    assert not progress.retried
    assert progress.settled_at_poll == UNSETTLED, "it is parked again, and that is not committed"
    progress.commit()
    assert progress.settled_at_poll == progress.poll_count


STREAMS = [f"S{n}" for n in range(20)]


class Counted(MemorySource):
    """A source that keeps what it was asked for again."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[ReadRequest] = []

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        self.asked.append(want)
        return super().reread(tranche, want)


class Parked:
    """A processor all of whose streams are parked, and what it does once the handler is mended."""

    def __init__(self, batches: Sequence[Sequence[str]], events_ahead: int) -> None:
        self.source, self.checkpoints = Counted(), MemoryCheckpoints()
        self.handled: list[tuple[str, int]] = []
        self.held: list[int] = []
        self._is_mended = False
        self._ends: dict[str, int] = {}
        rules = Rules(attempts_max=1, exhausted="park", events_ahead=events_ahead, events_per_call=1)
        self.running = InlineProcessor(self._handle, self.source, checkpoints=self.checkpoints, rules=rules)
        for streams in batches:
            self.source.deliver([self._event(stream) for stream in streams])
        self.running.drain()
        assert {each.stream for each in self.checkpoints.parked()} == set(self._ends)

    def tried_again(self) -> Mapping[str, int]:
        """Mend the handler, have all tried again, and return how many events each stream has had."""
        self._is_mended = True
        for stream in self._ends:
            self.checkpoints.ask(stream, "retry")
        self.running.drain()
        assert not self.checkpoints.parked()
        assert all(
            [index for name, index in self.handled if name == stream] == [*range(count)]
            for stream, count in self._ends.items()
        )
        return self._ends

    def _event(self, stream: str) -> StreamEvent:
        index = self._ends.get(stream, 0)
        self._ends[stream] = index + 1
        return StreamEvent(stream, index, "event", b"{}", tranche="0")

    def _handle(self, stream: str, events: Sequence[Any]) -> None:
        if not self._is_mended:
            raise ValueError("not yet")
        self.held.append(self.running.engine.count_replaying("0"))
        self.handled += [(stream, event.index) for event in events]


def test_streams_read_from_the_same_place_share_its_page() -> None:
    parked = Parked([STREAMS * 2], events_ahead=1000)
    assert sum(parked.tried_again().values()) == 40

    assert [want.position for want in parked.source.asked] == [0]


@pytest.mark.parametrize("events_ahead", [1, 5, 8])
def test_retried_streams_hold_no_more_than_may_be_read_ahead(events_ahead: int) -> None:
    parked = Parked([[stream] * 5 for stream in STREAMS], events_ahead)
    parked.tried_again()

    assert max(parked.held) == events_ahead // 2 + 5, "and a batch, since these come whole"


def test_page_is_no_larger_than_its_room() -> None:
    parked = Parked([STREAMS], events_ahead=30)
    parked.running.engine.retry("S0")

    [replay] = group_replays(parked.running.engine, ["0"])
    assert replay.want.events_max == 30
    assert group_replays(parked.running.engine, ["another"]) == []


def events(*indices: int) -> list[StreamEvent]:
    return [StreamEvent("S1", index, "event", b"{}") for index in indices]


def test_event_that_comes_during_the_approval_is_not_passed_over() -> None:
    source, seen, recorded = MemorySource(), list[int](), list[str]()

    def handle(_: str, them: Sequence[Any]) -> None:
        seen.extend(each.index for each in them)

    def record(tranche: str, reason: str) -> None:
        recorded.append(f"{tranche}: {reason}")
        source.deliver(events(1))
        processor.drain()

    processor = InlineProcessor(handle, source, rules=Rules(require_all=True))
    source.deliver(events(0, 3, 4))
    processor.drain()
    approve_missing("S1", "lost", processor.engine, record, lambda do: do())
    assert recorded == ["0: S1 goes on at 3, though 1 has not come: lost"]
    source.deliver(events(2))
    processor.drain()
    assert seen == [0, 1, 2, 3, 4]
