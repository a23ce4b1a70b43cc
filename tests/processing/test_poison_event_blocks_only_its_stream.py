"""An event that no call gets done: what its user sees until it is mended, or its stream is parked."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import pytest
from prometheus_client import CollectorRegistry

from penstock.processing import InlineProcessor, LocalProcessor, Rules, StreamEvent
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.engine import Backoff
from penstock.processing.engine.stream import NONE
from penstock.processing.metrics import ProcessorMetrics
from penstock.processing.outcomes import done_to
from penstock.processing.snapshot import Snapshot
from penstock.processing.sources import MemorySource

STREAMS = [f"S{number}" for number in range(5)]
BATCHES, BATCH_EVENTS = 10, 10
READ = 7
"""So many batches are read while the fourth one is not done."""
EACH = BATCHES * BATCH_EVENTS // len(STREAMS)
POISON = 7
"""The index of the eighth event of S1, which lies in the fourth batch."""
AHEAD = [{"batches_ahead": 4}, {"events_ahead": 35}]
"""Both are four batches of ten: the last one is taken in while there is room for five events."""
SECONDS_MAX = 300.0


class Poisoned:
    """Handles all but what S1 has from its eighth event on, until it is mended."""

    def __init__(self) -> None:
        self.handled: dict[str, list[int]] = defaultdict(list)
        self.attempts = 0
        """How many calls have begun with the poison event."""
        self.is_mended = False
        self.is_deferring = False
        """Whether it gets nowhere with the poison event, which is no failure."""

    def __call__(self, stream: str, events: Sequence[Any]) -> Any:
        to = events[-1].next
        if stream == "S1" and not self.is_mended and to > POISON:
            to = POISON
            if events[0].index == POISON and self.is_deferring:
                return done_to(POISON)
            if events[0].index == POISON:
                self.attempts += 1
                raise ValueError("poison")
        self.handled[stream] += [event.index for event in events if event.index < to]
        return done_to(to)

    def counts(self) -> list[int]:
        """How many events of each stream are handled."""
        return [len(self.handled[stream]) for stream in STREAMS]


class Runner(Protocol):
    """A processor, and how a test has it go on."""

    @property
    def snapshot(self) -> Snapshot: ...

    def until(self, check: Callable[[], bool]) -> None: ...

    def catch_up(self) -> None: ...


class Stepwise(InlineProcessor):
    """Steps, and a second passes after each."""

    def until(self, check: Callable[[], bool]) -> None:
        deadline = self.now + 10_000
        while not check():
            assert self.now < deadline, self.snapshot
            self.step()
            self.advance(1.0)

    def catch_up(self) -> None:
        self.drain(advance=True)


class Beside(LocalProcessor):
    """Threads, which are waited for."""

    def until(self, check: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not check():
            assert time.monotonic() < deadline, self.snapshot
            assert not self.wait(0.005)

    def catch_up(self) -> None:
        self.wait_until_caught_up(SECONDS_MAX)


@contextmanager
def running(
    runner: str, handler: Poisoned, source: MemorySource, checkpoints: MemoryCheckpoints, **rules: Any
) -> Iterator[Runner]:
    if runner == "inline":
        kept = Rules(backoff=Backoff(first_seconds=1.0, max_seconds=60.0, jitter=0.0), **rules)
        yield Stepwise(handler, source, checkpoints=checkpoints, rules=kept, name="mine")
        return
    kept = Rules(backoff=Backoff(first_seconds=0.005, max_seconds=0.02), **rules)
    with Beside(handler, source, checkpoints=checkpoints, rules=kept, commit_interval=0.01, name="mine") as local:
        yield local


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource()
    for at in range(READ):
        deliver(source, at)
    return source


def deliver(source: MemorySource, at: int) -> None:
    """Append a batch of ten: five streams in turn."""
    numbers = range(at * BATCH_EVENTS, (at + 1) * BATCH_EVENTS)
    source.deliver([StreamEvent(STREAMS[number % 5], number // 5, "event", b"{}") for number in numbers])


def metric(processor: Runner, name: str, **labels: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(ProcessorMetrics(processor))  # type: ignore[arg-type]
    return registry.get_sample_value(f"penstock_{name}", {"group": "mine", **labels})


def is_held(snapshot: Snapshot) -> bool:
    """Return whether it shows that the stream fails, and that the others have come as far as they can."""
    ahead = [(each.position, each.read, each.events_ahead) for each in snapshot.tranches]
    return ahead == [(3, READ, 40)] and snapshot.busy["failing"].attempts >= 3


def check_failing(processor: Runner) -> float:
    """Check what is said of the stream that fails; return for how long it has, it is said."""
    snapshot = processor.snapshot
    [tranche], failing = snapshot.tranches, snapshot.busy["failing"]
    assert (tranche.position, tranche.read) == (3, READ)
    assert (tranche.pages_ahead, tranche.events_ahead) == (4, 40)
    assert failing.streams == 1
    assert snapshot.failures == {"ValueError": failing.attempts}
    [told] = [each for each in snapshot.longest if each.state == "failing"]
    assert (told.stream, told.index, told.tag, told.detail) == ("S1", POISON, "ValueError", "poison")
    assert (told.attempts, told.age_seconds) == (failing.attempts, failing.oldest_seconds)
    assert metric(processor, "scheduler_busy_count", state="failing") == 1
    assert metric(processor, "feed_ahead_events", tranche="0") == 40
    return told.age_seconds


@pytest.mark.parametrize("ahead", AHEAD, ids=lambda ahead: next(iter(ahead)))
@pytest.mark.parametrize("runner", ["inline", "local"])
def test_poison_event_holds_the_checkpoint_and_other_streams_go_on_to_the_read_ahead_limit(
    runner: str, ahead: dict[str, int], source: MemorySource
) -> None:
    handler, checkpoints = Poisoned(), MemoryCheckpoints()
    for at in range(READ, BATCHES):
        deliver(source, at)
    with running(runner, handler, source, checkpoints, **ahead) as processor:
        processor.until(lambda: handler.counts() == [14, 7, 14, 14, 14] and checkpoints.positions() == {"0": 3})
        processor.until(lambda: is_held(processor.snapshot))
        before, attempts = check_failing(processor), processor.snapshot.busy["failing"].attempts
        processor.until(lambda: processor.snapshot.busy["failing"].attempts > attempts)
        after = check_failing(processor)
        assert after > before > 0
        assert metric(processor, "scheduler_busy_seconds", kind="oldest", state="failing") >= after  # type: ignore[operator]
        assert handler.counts() == [14, 7, 14, 14, 14], "nobody goes beyond what may be read ahead"
        assert checkpoints.positions() == {"0": 3}

        handler.is_mended = True
        processor.catch_up()
        processor.until(lambda: processor.snapshot.busy["failing"] == NONE)
        assert metric(processor, "scheduler_busy_count", state="failing") == 0
    assert handler.handled == {stream: [*range(EACH)] for stream in STREAMS}
    assert checkpoints.positions() == {"0": BATCHES}


def test_age_of_a_failing_stream_grows_with_time(source: MemorySource) -> None:
    processor = Stepwise(Poisoned(), source, rules=Rules(batches_ahead=4))
    processor.drain()
    before = processor.snapshot.busy["failing"].oldest_seconds
    processor.advance(3600.0)
    processor.drain()
    assert processor.snapshot.busy["failing"].oldest_seconds == pytest.approx(before + 3600.0)


@pytest.mark.parametrize("ahead", AHEAD, ids=lambda ahead: next(iter(ahead)))
@pytest.mark.parametrize("runner", ["inline", "local"])
def test_parked_poison_event_holds_nothing_and_is_listed_until_its_retry_succeeds(
    runner: str, ahead: dict[str, int], source: MemorySource
) -> None:
    handler, checkpoints = Poisoned(), MemoryCheckpoints()
    rules: dict[str, Any] = {"attempts_max": 3, "exhausted": "park", **ahead}
    handler.is_deferring = True
    with running(runner, handler, source, checkpoints, **rules) as processor:
        processor.until(lambda: handler.counts() == [14, 7, 14, 14, 14])
        handler.is_deferring = False
        for at in range(READ, BATCHES):
            deliver(source, at)
        processor.catch_up()
        assert checkpoints.positions() == {"0": BATCHES}
        assert handler.counts() == [EACH, POISON, EACH, EACH, EACH]
        [parked] = checkpoints.parked()
        assert (parked.stream, parked.tranche, parked.index, parked.next) == ("S1", "0", POISON, EACH)
        assert (parked.events, parked.attempts) == (EACH - POISON, 3)
        assert (parked.tag, parked.detail) == ("ValueError", "poison")
        processor.until(lambda: processor.snapshot.streams["parked"] == 1)
        assert processor.snapshot.busy["failing"] == NONE, "it is nobody's trouble until it is tried again"
        assert metric(processor, "processor_parked_streams") == 1

        checkpoints.ask("S1", "retry")
        processor.until(lambda: [each.attempts for each in checkpoints.parked()] == [6])
        processor.until(lambda: checkpoints.requests() == {})
    [parked] = checkpoints.parked()
    assert (parked.index, parked.next, parked.events, parked.attempts) == (POISON, EACH, EACH - POISON, 6)
    assert handler.counts() == [EACH, POISON, EACH, EACH, EACH]

    handler.is_mended = True
    source.append("S1", [])  # An empty batch: the checkpoint moves on with what is parked.
    with running(runner, handler, source, checkpoints, **rules) as processor:
        processor.catch_up()
        assert handler.counts()[1] == POISON, "nobody has asked"
        checkpoints.ask("S1", "retry")
        processor.until(lambda: not checkpoints.parked())
        source.deliver([StreamEvent("S1", EACH, "event", b"{}")])
        processor.catch_up()
        processor.until(lambda: processor.snapshot.streams["parked"] == 0)
    assert handler.handled == {stream: [*range(EACH + (stream == "S1"))] for stream in STREAMS}
    assert checkpoints.positions() == {"0": BATCHES + 2}
