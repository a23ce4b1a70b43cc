"""A stream that waits for an event which will never come goes on after an approval, which is recorded."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadParameter, Unavailable
from penstock.processing import DatabaseCheckpoints, InlineProcessor, LocalProcessor, Rules, Transactional
from penstock.processing.runners.observer import compute_figures, describe_figures
from penstock.processing.sources import MemorySource
from penstock.processing.stream_event import StreamEvent
from penstock.processing.together import Span
from tests.processing.office import until

ALL = Rules(require_all=True)
SOON_SECONDS = 300.0


def events(*indices: int) -> list[StreamEvent]:
    return [StreamEvent("S1", index, "event", b"{}") for index in indices]


@pytest.fixture
def source() -> MemorySource:
    """A stream of which the events 1 and 2 are missing."""
    source = MemorySource()
    source.deliver(events(0, 3, 4))
    return source


@pytest.fixture
def checkpoints(tmp_path: Path) -> DatabaseCheckpoints:
    return DatabaseCheckpoints(f"sqlite:///{tmp_path}/consumer.db", "counter")


def test_snapshot_shows_the_stream_and_its_missing_index(source: MemorySource) -> None:
    processor = InlineProcessor(lambda _, __: None, source, rules=ALL)
    processor.drain()
    [gapped] = processor.snapshot.gapped
    assert (gapped.stream, gapped.missing, gapped.found) == ("S1", 1, 3)
    told = describe_figures(compute_figures(processor.snapshot, None))
    assert "1 waiting for an index that is missing (S1 for 1)" in told


def test_stream_goes_on_after_approval_and_the_reason_is_recorded(
    source: MemorySource, checkpoints: DatabaseCheckpoints, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []
    processor = InlineProcessor(
        lambda _, them: seen.extend(each.index for each in them), source, checkpoints=checkpoints, rules=ALL
    )
    processor.drain()
    assert (seen, checkpoints.positions()) == ([0], {"0": 0})
    with pytest.raises(BadParameter, match="stream is 'S2'; allowed: one that waits for an index: S1"):
        processor.approve_missing("S2", reason="a slip")
    with caplog.at_level(logging.WARNING, "penstock.processing"):
        processor.approve_missing("S1", reason="lost in the move")
    processor.drain()
    assert (seen, checkpoints.positions()) == ([0, 3, 4], {"0": 1})
    source.deliver(events(2, 5))
    processor.drain()
    assert seen == [0, 3, 4, 5]
    [done] = checkpoints.history()
    assert done.reason == "S1 goes on at 3, though 1 has not come: lost in the move"
    assert (done.tranche, done.came_from, done.went_to) == ("0", 0, 0)
    assert "S1 goes on at 3" in caplog.text
    with pytest.raises(BadParameter, match="none does"):
        processor.approve_missing("S1", reason="once more")


def test_running_processor_takes_an_approval_from_another_thread(
    source: MemorySource, checkpoints: DatabaseCheckpoints
) -> None:
    first = threading.Event()

    def handle(stream: str, them: Sequence[Any]) -> None:
        first.set()

    running = LocalProcessor(handle, source, checkpoints=checkpoints, rules=ALL)
    with pytest.raises(Unavailable, match="does not run"):
        running.approve_missing("S1", reason="too early")
    with running:
        assert first.wait(SOON_SECONDS)
        while True:
            try:
                running.approve_missing("S1", reason="lost in the move")
            except BadParameter:  # Its first event is still with the handler.
                continue
            break
        running.wait_until_caught_up(SOON_SECONDS)
    assert [each.reason for each in checkpoints.history()] == [
        "S1 goes on at 3, though 1 has not come: lost in the move"
    ]
    with pytest.raises(Unavailable, match="does not run"):
        running.approve_missing("S1", reason="too late")


def test_approval_waits_for_a_transaction_that_holds_the_database(
    source: MemorySource, checkpoints: DatabaseCheckpoints
) -> None:
    seen, begun, recording = list[int](), threading.Event(), threading.Event()

    class Recorded(DatabaseCheckpoints):
        def record(self, tranche: str, reason: str) -> None:
            recording.set()
            super().record(tranche, reason)

    def write(_: Any, spans: Sequence[Span]) -> None:
        seen.extend(each.index for span in spans for each in span.events if span.stream == "S1")
        if any(span.stream == "slow" for span in spans):
            begun.set()
            assert recording.wait(SOON_SECONDS)

    kept = Recorded(checkpoints.database, "counter")
    with LocalProcessor(Transactional(kept.database, write, kept), source, rules=ALL) as running:
        until(lambda: running.snapshot.gapped, running)
        source.deliver([StreamEvent("slow", 0, "event", b"{}")])
        assert begun.wait(SOON_SECONDS)
        approving = threading.Thread(target=running.approve_missing, args=["S1"], kwargs={"reason": "lost"})
        approving.start()
        approving.join(SOON_SECONDS)
        assert not approving.is_alive()
        running.wait_until_caught_up(SOON_SECONDS)
    assert seen == [0, 3, 4]
    assert [each.reason for each in checkpoints.history()] == ["S1 goes on at 3, though 1 has not come: lost"]
