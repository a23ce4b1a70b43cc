from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from penstock.core.groups.parking import Request
from penstock.errors import (
    BadParameter,
    HandlerFailed,
    OutcomeUnknown,
    ProcessorUnhealthy,
    Unavailable,
)
from penstock.processing.checkpoints.checkpoint import Advance, MemoryCheckpoints
from penstock.processing.engine.parking import Place
from penstock.processing.engine.rules import Backoff, Rules
from penstock.processing.outcomes import retry
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.sources.memory import MemorySource


class Seen:
    """A handler that keeps what it was given, and fails where it is told to."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, list[int]]] = []
        self.broken: set[str] = set()

    @property
    def handled(self) -> dict[str, list[int]]:
        """The indices it was given, by stream, in their order."""
        found: dict[str, list[int]] = {}
        for stream, span in self.spans:
            found.setdefault(stream, []).extend(span)
        return found

    def __call__(self, stream: str, events: Sequence[Any]) -> None:
        self.spans.append((stream, [event.index for event in events]))
        if stream in self.broken:
            raise ValueError("broken")


@pytest.fixture
def source() -> MemorySource:
    return MemorySource()


@pytest.fixture
def seen() -> Seen:
    return Seen()


def test_events_appended_by_handlers_are_handled_too(source: MemorySource) -> None:
    def react(stream: str, events: Sequence[Any]) -> None:
        for event in events:
            if event.data["n"]:
                source.append(stream, [{"n": event.data["n"] - 1}])

    running = InlineProcessor(react, source)
    source.append("S1", [{"n": 3}])
    running.drain()

    assert running.engine.handled == 4


def test_restarted_processor_handles_exactly_the_unhandled_events(source: MemorySource, seen: Seen) -> None:
    checkpoints = MemoryCheckpoints()
    for number in range(3):
        source.append("S1", [number])
        source.append("S2", [number])
    seen.broken = {"S1"}
    InlineProcessor(seen, source, checkpoints=checkpoints).drain()
    assert checkpoints.positions() == {"0": 0}

    seen.broken, seen.spans = set(), []
    source.append("S3", [1])
    InlineProcessor(seen, source, checkpoints=checkpoints).drain()
    assert seen.handled == {"S1": [0, 1, 2], "S2": [0, 1, 2], "S3": [0]}

    seen.spans = []
    InlineProcessor(seen, source, checkpoints=checkpoints).drain()
    assert seen.spans == []


def test_time_passes_on_demand(source: MemorySource, seen: Seen) -> None:
    seen.broken = {"S1"}
    running = InlineProcessor(seen, source, rules=Rules(backoff=Backoff(first_seconds=10.0, jitter=0.0)))
    source.append("S1", [1])
    running.drain()
    running.advance(9.9)
    running.drain()
    assert len(seen.spans) == 1

    running.advance(0.1)
    running.drain()
    assert len(seen.spans) == 2
    seen.broken = set()
    running.drain(advance=True)
    assert (len(seen.spans), running.now) == (3, 30.0)


def test_deferred_stream_is_handled_when_its_handler_said(source: MemorySource) -> None:
    times = []

    def defer(stream: str, events: Sequence[Any]) -> Any:
        times.append(running.now)
        return retry(7.0) if len(times) < 3 else None

    running = InlineProcessor(defer, source)
    source.append("S1", [1])
    running.drain(advance=True)

    assert times == [0.0, 7.0, 14.0]


def test_tranche_that_comes_during_a_run_is_read(source: MemorySource, seen: Seen) -> None:
    running = InlineProcessor(seen, source)
    running.drain()
    source.append("S1", [1], tranche="new")
    running.drain()

    assert seen.spans == [("S1", [0])]
    assert running.engine.positions() == {"0": 0, "new": 1}


class Forgetful(MemoryCheckpoints):
    keeps_parked = False


def test_exhausted_stream_ends_the_processor_with_the_error_of_its_handler(source: MemorySource, seen: Seen) -> None:
    seen.broken = {"S1"}
    source.append("S1", [1])

    told = "S1: the event at 0 has failed 3 times, the last time with ValueError"
    with pytest.raises(HandlerFailed, match=told) as caught:
        InlineProcessor(seen, source, rules=Rules(attempts_max=3)).drain(advance=True)
    assert repr(caught.value.__cause__) == "ValueError('broken')"


def test_parking_without_checkpoints_is_refused(source: MemorySource, seen: Seen) -> None:
    rules = Rules(attempts_max=3, exhausted="park")
    with pytest.raises(BadParameter, match="exhausted is 'park'; allowed: 'stop', since these checkpoints keep no "):
        InlineProcessor(seen, source, rules=rules, checkpoints=Forgetful())
    source.is_replayable = False  # type: ignore[misc]
    with pytest.raises(BadParameter, match="exhausted is 'park'; allowed: 'stop', since the source gives its ev"):
        InlineProcessor(seen, source, rules=rules)


class Flaky(MemoryCheckpoints):
    """Loses the first answer, fails the second commit, and does not say once what is wanted of parked streams."""

    commits = 0
    asked = 0

    def commit(self, advance: Advance) -> None:
        self.commits += 1
        if self.commits == 2:
            raise Unavailable(reason="out of order")
        super().commit(advance)
        if self.commits == 1:
            raise OutcomeUnknown(reason="the answer was lost")

    def requests(self) -> Mapping[Place, Request]:
        self.asked += 1
        if self.asked == 1:
            raise Unavailable(reason="out of order")
        return super().requests()


@pytest.mark.parametrize("also", ["0", "1"])
def test_failed_commits_are_made_up_for(seen: Seen, also: str) -> None:
    source, checkpoints, failures = MemorySource("0", "1"), Flaky(), 0
    running = InlineProcessor(seen, source, checkpoints=checkpoints)
    for tranche in ("0", also, "0", "0", "0"):
        source.append(f"S{tranche}", range(2), tranche=tranche)
        try:
            running.drain()
        except (OutcomeUnknown, Unavailable):
            failures += 1
            assert (running.snapshot.commits["failed"], running.snapshot.commits_failing > 0) == (failures, True)

    assert failures == 3
    assert checkpoints.positions() == ({"0": 5, "1": 0} if also == "0" else {"0": 4, "1": 1})
    assert seen.handled["S0"] == [*range(10 if also == "0" else 8)]


def test_snapshot_shows_the_current_state(source: MemorySource, seen: Seen) -> None:
    seen.broken = {"S1"}
    running = InlineProcessor(seen, source, checkpoints=MemoryCheckpoints("orders"))
    source.append("S1", [1, 2])
    source.append("S2", [1])
    running.drain()
    running.advance(3.0)

    found = running.snapshot
    assert (running.name, found.name, found.is_running) == ("orders", "orders", True)
    assert (found.handled, found.failures, found.busy["failing"].oldest_seconds) == (1, {"ValueError": 1}, 3.0)
    [tranche] = found.tranches
    assert (tranche.events_read, tranche.events_ahead, tranche.pages_read) == (3, 3, 2)
    assert running.behind() == {"0": 3}

    seen.broken = set()
    running.drain(advance=True)
    assert (running.snapshot.handled, running.snapshot.commits["ok"], running.behind()) == (3, 2, {"0": 0})


@pytest.mark.parametrize("advance", [False, True])
def test_events_that_come_again_at_once_without_end_stop_the_processor_with_their_name(
    source: MemorySource, advance: bool
) -> None:
    source.append("S1", [1])
    source.append("S2", [1])
    calls, most = 0, 900

    def handle(stream: str, events: Sequence[Any]) -> Any:
        nonlocal calls
        calls += stream == "S1"
        return retry(0) if stream == "S1" and calls < most else None

    InlineProcessor(handle, source).drain(advance=advance)
    assert calls == 900, "so often it is no circle"
    calls, most = 0, 10**9
    with pytest.raises(ProcessorUnhealthy, match="S1 at 0, called 1000 times in vain without any time between"):
        InlineProcessor(handle, source).drain(advance=advance)
