import pytest

from penstock.errors import HandlerFailed
from penstock.processing import Rules
from penstock.processing.checkpoints import MemoryCheckpoints
from penstock.processing.sources import MemorySource
from penstock.testing.clock import VirtualClock
from penstock.testing.processing import SlowHandler, VirtualInline, Witness, nth


def test_slow_calls_of_all_or_named_streams_take_virtual_time_that_is_measured() -> None:
    source = MemorySource()
    for stream in ("S0", "S1", "S2"):
        source.append(stream, [1])
    witness = Witness()
    running = VirtualInline(witness, source)
    began = running.clock()
    running = VirtualInline(SlowHandler(witness, running.clock, 2.5, nth(1, 3)), source, clock=running.clock)
    running.drain()

    assert running.clock() - began == 5_000_000
    assert running.now == 5.0
    measured = running.engine.latency["ok"].histogram()
    assert (measured.count, measured.sum) == (3, 5.0)
    witness.assert_handled_all(source)

    source = MemorySource()
    for stream in ("S0", "S1", "S2"):
        source.append(stream, [1])
    clock = VirtualInline(Witness(), source).clock
    running = VirtualInline(SlowHandler(Witness(), clock, 60, streams=["S1"]), source, clock=clock)
    running.drain()

    assert running.now == 60.0


def test_call_beyond_its_timeout_fails_unless_it_succeeds_in_the_end() -> None:
    source, clock, witness = MemorySource(), VirtualClock(), Witness()
    source.append("S0", [1])
    slow = SlowHandler(witness, clock, 6)
    running = VirtualInline(slow, source, clock=clock, rules=Rules(timeout=5, attempts_max=2))
    running.drain()
    witness.assert_handled_all(source)

    with pytest.raises(HandlerFailed, match="the last time with timeout: the handler was not done after 5 s"):
        VirtualInline(slow, source, clock=clock, rules=Rules(timeout=5, attempts_max=1)).drain()
    checkpoints = MemoryCheckpoints()
    rules = Rules(timeout=5, attempts_max=1, exhausted="park")
    VirtualInline(slow, source, clock=clock, checkpoints=checkpoints, rules=rules).drain()
    assert [(parked.stream, parked.tag) for parked in checkpoints.parked()] == [("S0", "timeout")]
    assert checkpoints.positions() == {"0": 1}
