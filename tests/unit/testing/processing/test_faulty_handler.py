import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.processing import InlineProcessor
from penstock.processing.sources import MemorySource
from penstock.testing.processing import FaultyHandler, InjectedFault, always, nth


class Seen:
    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def __call__(self, stream: str, events: Sequence[Any]) -> int:
        self.events += [(stream, event.index) for event in events]
        return int(events[-1].next)

    async def awaited(self, stream: str, events: Sequence[Any]) -> None:
        self(stream, events)


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource()
    for stream in ("S0", "S1"):
        source.append(stream, range(2))
    return source


def test_failed_calls_have_no_effect_and_are_retried(source: MemorySource) -> None:
    seen = Seen()
    faulty = FaultyHandler(seen, nth(1, 2))
    InlineProcessor(faulty, source).drain(advance=True)

    assert sorted(seen.events) == [("S0", 0), ("S0", 1), ("S1", 0), ("S1", 1)]
    assert faulty.failures == 2


def test_only_named_streams_fail_until_they_are_mended(source: MemorySource) -> None:
    seen = Seen()
    faulty = FaultyHandler(seen, streams=["S1"], error=lambda: ConnectionError("down"))
    running = InlineProcessor(faulty, source)
    running.drain()
    assert {stream for stream, _ in seen.events} == {"S0"}
    assert running.engine.busy.failing["S1"].tag == "ConnectionError"

    faulty.mend()
    running.drain(advance=True)
    assert {stream for stream, _ in seen.events} == {"S0", "S1"}
    assert faulty.failures == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_call_can_fail_after_its_effect(source: MemorySource, is_async: bool) -> None:
    seen = Seen()
    faulty = FaultyHandler(seen.awaited if is_async else seen, nth(1), has_effect=True)
    InlineProcessor(faulty, source).drain(advance=True)

    assert seen.events.count(("S0", 0)) == 2
    assert seen.events.count(("S1", 0)) == 1


def test_coroutine_that_does_not_fail_is_awaited() -> None:
    async def answer(stream: str, events: Sequence[Any]) -> int:
        return 7

    assert asyncio.run(FaultyHandler(answer, nth(2))("S0", [])) == 7
    with pytest.raises(InjectedFault, match="a fault was injected"):
        asyncio.run(FaultyHandler(answer, always, has_effect=True)("S0", []))
