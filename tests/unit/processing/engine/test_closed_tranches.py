"""A tranche that is given up takes along what is of it; what its streams have in others goes on."""

import pytest

from penstock.processing.engine.engine import Engine
from penstock.processing.outcomes import Failure, done, skip_to
from tests.unit.processing.engine.items import batch, begin, engine, indices, things

BROKEN = Failure("ValueError", "it cannot be")


def give_up(running: Engine, tranche: str) -> None:
    running.close(tranche)
    assert not running.is_active(tranche)
    running.forget(tranche)


def handle(running: Engine, now: float) -> list[tuple[str, list[int]]]:
    found = []
    while calls := running.take(100, now):
        for call in calls:
            found.append((call.stream, indices(call)))
            running.settle(call, done(), now, 0.001)
    return found


@pytest.mark.parametrize(("closed", "left"), [("a", "b"), ("b", "a")], ids=["that of a call", "that of what waits"])
def test_stream_does_not_wait_for_events_of_a_closed_tranche(closed: str, left: str) -> None:
    running = engine("a", "b")
    for tranche in ("a", "b"):
        running.ingest(batch(1, things("S1E0"), tranche), 0.0)
    [call] = running.take(8, 0.0)
    running.settle(call, BROKEN, 0.0, 0.001)

    give_up(running, closed)

    assert handle(running, 10.0) == [("S1", [0])]
    assert running.positions() == {left: 1}
    assert running.is_idle
    running.ingest(batch(2, things("S1E1"), left), 10.0)
    assert handle(running, 10.0) == [("S1", [1])]
    running.open(closed, 0)
    running.ingest(batch(1, things("S1E0"), closed), 20.0)
    assert handle(running, 20.0) == [("S1", [0])]
    assert running.positions() == {left: 2, closed: 1}


def test_dense_stream_continues_with_events_of_other_tranches() -> None:
    running = engine("a", "b", is_dense=True)
    running.ingest(batch(3, things("S1E0", "S1E3", "S2E0"), "a"), 0.0)
    running.ingest(batch(3, things("S1E1", "S1E2", "S1E4"), "b"), 0.0)

    give_up(running, "a")

    assert handle(running, 0.0) == [("S1", [1, 2]), ("S1", [4])]
    assert running.positions() == {"b": 3}
    assert running.is_idle


def test_failing_stream_keeps_its_age_when_a_tranche_with_later_events_closes() -> None:
    running = engine("a", "b", is_dense=True)
    running.ingest(batch(1, things("S1E0"), "a"), 0.0)
    running.ingest(batch(1, things("S1E1"), "b"), 0.0)
    [call] = running.take(8, 0.0)
    running.settle(call, BROKEN, 0.0, 0.001)

    give_up(running, "b")

    assert running.busy.failing["S1"].since == 0.0
    [call] = running.take(8, 10.0)
    assert (call.attempt, indices(call)) == (2, [0])
    running.settle(call, done(), 10.0, 0.001)
    assert running.positions() == {"a": 1}


def test_tranche_is_active_while_a_call_has_events_of_it() -> None:
    running = engine("a", "b", is_dense=True)
    running.ingest(batch(1, things("S1E0"), "a"), 0.0)
    running.ingest(batch(2, things("S1E1", "S2E0"), "b"), 0.0)
    first, second = running.take(8, 0.0)
    assert indices(first) == [0, 1]

    running.settle(second, done(), 0.0, 0.001)

    assert running.is_active("a")
    assert running.is_active("b")
    running.settle(first, done(), 0.0, 0.001)
    assert not running.is_active("a")
    assert not running.is_active("b")


def test_longest_resting_stream_is_forgotten_first_unless_it_skips_future_events() -> None:
    running = begin(1, "S0E0", is_dense=True, remember=2)
    [skipping] = running.take(8, 0.0)
    running.settle(skipping, skip_to(5), 0.0, 0.001)
    at = 1
    for name in ("S1E0", "S2E0", "S3E0", "S1E1", "S4E0", "S1E2"):
        at += 1
        running.ingest(batch(at, things(name)), 0.0)
        handle(running, 0.0)

    running.ingest(batch(at + 1, things("S1E2", "S0E4", "S2E0")), 0.0)

    assert handle(running, 0.0) == [("S2", [0])]
