from collections.abc import Sequence
from typing import Any

import pytest

from penstock.errors import HandlerFailed
from penstock.processing import LocalProcessor, Rules
from penstock.processing.sources import MemorySource
from penstock.testing.processing import FaultyHandler, Witness, await_caught_up


def test_processors_that_feed_each_other_are_awaited() -> None:
    sources = [MemorySource(), MemorySource()]

    def hand_on(to: MemorySource) -> Any:
        def handle(stream: str, events: Sequence[Any]) -> None:
            for event in events:
                if event.data:
                    to.append(stream, [event.data - 1])

        return handle

    witnesses = [Witness(hand_on(to)) for to in reversed(sources)]
    sources[0].append("S0", [40])
    with LocalProcessor(witnesses[0], sources[0]) as first, LocalProcessor(witnesses[1], sources[1]) as second:
        await_caught_up(second, first)
        assert first.engine.handled + second.engine.handled == 41
    for witness, source in zip(witnesses, sources, strict=True):
        witness.assert_handled_all(source)


def test_timeout_names_the_streams_that_are_behind_and_why() -> None:
    source = MemorySource()
    source.append("S0", range(3))
    source.append("S1", range(3))
    faulty = FaultyHandler(Witness(), streams=["S1"])
    with LocalProcessor(faulty, source) as running:
        with pytest.raises(AssertionError) as raised:
            await_caught_up(running, timeout=0.3)
        told = str(raised.value).splitlines()
        assert told[0] == "not caught up within 0.3 s"
        assert "behind is 0: 3" in told[1]
        assert "S1: failing at 0 for" in told[2]
        assert told[2].endswith("attempts, InjectedFault: a fault was injected")
        faulty.mend()
        await_caught_up(running)


def test_failure_of_an_awaited_processor_is_raised() -> None:
    source = MemorySource()
    source.append("S0", range(3))
    running = LocalProcessor(FaultyHandler(Witness()), source, rules=Rules(attempts_max=1)).start()
    with pytest.raises(HandlerFailed):
        await_caught_up(running)
    with pytest.raises(HandlerFailed):
        running.stop()
