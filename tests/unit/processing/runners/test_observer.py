import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.errors import HandlerFailed
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.engine.rules import Backoff, Rules
from penstock.processing.outcomes import Failure, done
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.runners.observer import ProcessorObserver
from penstock.processing.sources.memory import MemorySource
from tests.unit.processing.engine.items import batch, engine, things

SOON_SECONDS = 300.0


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.processing")


def read_log(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "penstock.processing"]


def test_overdue_call_is_counted_once_whatever_its_outcome() -> None:
    ours = engine(timeout=1.0)
    observing = ProcessorObserver("mailer", ours, dict, None, 0.0)
    ours.ingest(batch(2, things("A0E0", "B0E1")), 0.0)
    fails, ends = ours.take(2, 0.0)
    ours.mark_overdue(2.0)
    observing.observe(2.0)
    observing.observe(3.0)
    assert observing.snapshot.failures == {"timeout": 2}

    ours.settle(fails, Failure("ValueError", "broken"), 4.0, 4.0)
    ours.settle(ends, done(), 4.0, 4.0)
    observing.observe(4.0)
    assert observing.snapshot.failures == {"timeout": 2}

    [again] = ours.take(1, 100.0)
    ours.mark_overdue(102.0)
    observing.end(102.0, None)
    assert again.stream == "A0"
    assert observing.snapshot.failures == {"timeout": 3}


def test_figures_are_logged_at_their_interval(caplog: pytest.LogCaptureFixture) -> None:
    often, never = (
        ProcessorObserver(name, engine(), dict, stats_interval, 0.0)
        for name, stats_interval in (("often", 60.0), ("never", None))
    )
    for now in (30.0, 60.0, 90.0, 119.0, 120.0):
        often.observe(now)
        never.observe(now)
    assert [line.partition(":")[0] for line in read_log(caplog)] == ["often", "often"]
    often.end(130.0, None)
    never.end(130.0, None)
    assert [line[:12] for line in read_log(caplog)[2:]] == ["often: 0 eve", "often was st", "never was st"]


def test_snapshots_are_separate_and_never_change() -> None:
    ours = engine()
    observing = ProcessorObserver("mailer", ours, dict, None, 0.0)
    first = observing.snapshot
    ours.ingest(batch(1, things("A0E0")), 0.0)
    observing.observe(1.0)

    assert (first.events_ahead, first.is_running) == (0, False)
    assert (observing.snapshot.events_ahead, observing.snapshot.is_running) == (1, True)


def test_cause_of_the_end_is_logged_and_shown(caplog: pytest.LogCaptureFixture) -> None:
    source, checkpoints = MemorySource(), MemoryCheckpoints("mailer")
    source.append("S0", [1])

    def handle(stream: str, events: Sequence[Any]) -> None:
        raise ValueError("no such customer")

    rules = Rules(attempts_max=2, backoff=Backoff(first_seconds=0.001))
    running = LocalProcessor(handle, source, checkpoints=checkpoints, rules=rules).start()
    with pytest.raises(HandlerFailed):
        running.wait_until_caught_up(SOON_SECONDS)
    with pytest.raises(HandlerFailed):
        running.stop()

    assert read_log(caplog)[0] == "mailer: S0 fails at 0: ValueError: no such customer"
    assert read_log(caplog)[-1].startswith("mailer has ended: S0: the event at 0 has failed 2 times")
    assert [each.levelname for each in caplog.records if each.name == "penstock.processing"][-1] == "ERROR"
    assert not running.snapshot.is_running
    assert running.snapshot.busy["failing"].attempts == 2
    assert running.snapshot.failures == {"ValueError": 2}


def test_snapshot_may_be_read_by_any_thread_while_streams_come_and_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.processing.runners.local.LOOK_INTERVAL", 0.002)
    source = MemorySource("0", "1")
    for number in range(200):
        source.append(f"S{number % 50}", [0] * 10, tranche=f"{number % 2}")
    wrong: list[object] = []
    is_over = threading.Event()

    def read(running: LocalProcessor) -> None:
        last = 0
        while not is_over.wait(0.0005):
            seen = running.snapshot
            if not last <= seen.handled <= 2_000 or seen.events_ahead + seen.handled > 4_000:
                wrong.append(seen)
            last = seen.handled

    with LocalProcessor(lambda *_: None, source, stats_interval=None) as running:
        readers = [threading.Thread(target=read, args=(running,)) for _ in range(2)]
        for reader in readers:
            reader.start()
        running.wait_until_caught_up(SOON_SECONDS)
        is_over.set()
        for reader in readers:
            reader.join()
    assert wrong == []
    assert running.snapshot.handled == 2_000
    assert running.snapshot.streams["synced"] == 50
    assert {each.name: each.events_read for each in running.snapshot.tranches} == {"0": 1_000, "1": 1_000}
