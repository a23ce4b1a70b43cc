import pytest

from penstock.errors import OutcomeUnknown, Unavailable
from penstock.processing import InlineProcessor, LocalProcessor
from penstock.processing.checkpoints import Advance, MemoryCheckpoints, PositionMove
from penstock.processing.sources import MemorySource
from penstock.testing.processing import FaultyCheckpoints, VirtualInline, Witness, await_caught_up, every, nth


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource()
    for number in range(60):
        source.append(f"S{number % 5}", [number])
    return source


def test_failed_commit_keeps_nothing_and_commit_with_a_lost_answer_keeps_all() -> None:
    kept = MemoryCheckpoints()
    faulty = FaultyCheckpoints(kept, fails=nth(1), loses=nth(2))
    with pytest.raises(Unavailable, match="a fault was injected into a commit"):
        faulty.commit(Advance({"0": PositionMove(None, 1)}))
    assert kept.positions() == {}
    with pytest.raises(OutcomeUnknown, match="the answer to a commit was lost"):
        faulty.commit(Advance({"0": PositionMove(None, 1)}))
    assert kept.positions() == faulty.positions() == {"0": 1}
    faulty.commit(Advance({"0": PositionMove(1, 2)}))
    assert kept.positions() == {"0": 2}
    assert faulty.failures == 2


def test_processor_survives_failing_commits(source: MemorySource) -> None:
    kept, witness = MemoryCheckpoints(), Witness()
    faulty = FaultyCheckpoints(kept, fails=every(3), loses=every(5))
    VirtualInline(witness, source, checkpoints=faulty).drain()
    witness.assert_handled_all(source)
    assert kept.positions() == {"0": 60}
    assert faulty.failures >= 20

    kept, witness = MemoryCheckpoints(), Witness()
    faulty = FaultyCheckpoints(kept, fails=nth(1, 3), loses=nth(2, 4))
    with LocalProcessor(witness, source, checkpoints=faulty, commit_interval=0.0) as running:
        await_caught_up(running)
        for number in range(20):
            source.append("S1", [number])
            await_caught_up(running)
    witness.assert_handled_all(source)
    assert kept.positions() == {"0": 80}
    assert faulty.failures == 4


def test_events_are_redelivered_after_a_death_before_the_commit(source: MemorySource) -> None:
    kept, witness = MemoryCheckpoints(), Witness()
    dying = InlineProcessor(witness, source, checkpoints=FaultyCheckpoints(kept, fails=nth(1)))
    with pytest.raises(Unavailable):
        dying.drain()
    calls = witness.calls
    assert calls > 0
    InlineProcessor(witness, source, checkpoints=kept).drain()

    witness.assert_handled_all(source)
    assert witness.calls > calls
    assert kept.positions() == {"0": 60}
