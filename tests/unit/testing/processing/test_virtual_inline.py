from collections.abc import Sequence
from typing import Any

import pytest

from penstock.errors import HandlerFailed, Unavailable
from penstock.processing import Rules
from penstock.processing.engine import Backoff
from penstock.processing.outcomes import retry
from penstock.processing.sources import MemorySource
from penstock.testing.clock import VirtualClock
from penstock.testing.processing import FaultyHandler, FaultySource, VirtualInline, Witness, always, nth


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource()
    source.append("S0", range(3))
    return source


def test_virtual_inline_uses_its_clock(source: MemorySource) -> None:
    clock = VirtualClock()
    began = clock()
    running = VirtualInline(lambda *_: retry(60.0), source, clock=clock)
    running.drain()
    assert running.engine.due == 60.0

    clock.advance(seconds=20)
    assert running.now == 20.0
    running.advance(40.5)
    assert clock() - began == 60_500_000
    running.drain()
    assert running.engine.due == 120.5, "it was called once more"


def test_drain_advances_the_clock_to_the_next_retry(source: MemorySource) -> None:
    waits = iter([retry(0.1 / 3), retry(1e-9), retry(3600.0), None])
    running = VirtualInline(lambda *_: next(waits), source)
    running.drain(advance=True)

    assert running.engine.handled == 3
    assert 3600.0333 < running.now < 3600.0334


def test_transient_failures_of_reads_are_retried_and_persistent_ones_raised(source: MemorySource) -> None:
    witness = Witness()
    running = VirtualInline(witness, FaultySource(source, fails=nth(1, 2, 4)))
    running.drain()

    witness.assert_handled_all(source)
    assert [type(error) for error in running.failures] == [Unavailable] * 3
    assert running.now == pytest.approx(0.3)

    running = VirtualInline(Witness(), FaultySource(source, fails=always), failures_max=5)
    with pytest.raises(Unavailable):
        running.drain()
    assert len(running.failures) == 5


def test_exhausted_stream_is_raised_without_a_retry(source: MemorySource) -> None:
    def broken(stream: str, events: Sequence[Any]) -> None: ...

    rules = Rules(attempts_max=2, backoff=Backoff(first_seconds=1))
    running = VirtualInline(FaultyHandler(broken), source, rules=rules)
    with pytest.raises(HandlerFailed, match="S0: the event at 0 has failed 2 times"):
        running.drain(advance=True)
    assert running.failures == []
