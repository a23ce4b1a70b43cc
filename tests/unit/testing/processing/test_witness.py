import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.processing import InlineProcessor, StreamEvent
from penstock.processing.outcomes import done_to, skip_to
from penstock.processing.sources import MemorySource
from penstock.testing.processing import FaultyHandler, Witness, always


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource("0", "1")
    for number in range(6):
        source.append(f"S{number % 2}", [number], tranche=f"{number % 2}")
    return source


def event(index: int, stream: str = "S0") -> StreamEvent:
    return StreamEvent(stream, index, "event", b"{}", tranche="0")


def test_handled_repeated_partial_and_skipped_events_count_once(source: MemorySource) -> None:
    witness = Witness()
    InlineProcessor(witness, source).drain()

    witness.assert_handled_all(source)
    found = {stream: [each.data for each in events] for stream, events in witness.handled.items()}
    assert found == {"S0": [0, 2, 4], "S1": [1, 3, 5]}

    witness = Witness(lambda _, events: done_to(events[0].next))
    InlineProcessor(FaultyHandler(witness, lambda number: number < 3, has_effect=True), source).drain(advance=True)

    witness.assert_handled_all(source)
    assert witness.calls > 6

    witness = Witness(lambda *_: skip_to(3))
    InlineProcessor(witness, source).drain()

    witness.assert_handled_all(source)


def test_missing_unordered_and_unknown_events_are_named(source: MemorySource) -> None:
    witness = Witness()
    InlineProcessor(FaultyHandler(witness, always, streams=["S1"]), source).drain()

    with pytest.raises(AssertionError, match=r"^S1: not handled in their turn are 0, 1, 2$"):
        witness.assert_handled_all(source)
    witness.assert_handled_all(source, parked=["S1"])

    witness = Witness()
    for index in (0, 2, 1):
        witness("S0", [event(index)])

    with pytest.raises(AssertionError, match=r"S0: not handled in their turn are 1\n"):
        witness.assert_handled_all(source)

    witness = Witness()
    InlineProcessor(witness, source).drain()
    witness("S0", [event(77)])
    witness("S9", [event(0, "S9")])

    with pytest.raises(AssertionError, match=r"^S0: the source has no 77\nS9: the source has no such stream$"):
        witness.assert_handled_all(source)


def test_concurrent_and_unordered_calls_are_named(source: MemorySource) -> None:
    def again(stream: str, events: Sequence[Any]) -> None:
        if len(events) == 1:
            witness(stream, [*events, *events])

    witness = Witness(again)
    witness("S0", [event(0)])
    witness("S0", [event(0, "S1"), event(1)])

    assert witness.wrong == [
        "S0: two calls at once",
        "S0: called with 0, 0, which are in no order",
        "S0: called with events of other streams",
    ]


def test_call_of_a_coroutine_lasts_until_its_return() -> None:
    async def handle(stream: str, events: Sequence[Any]) -> None:
        await asyncio.sleep(0)
        if events[0].index == 5:
            raise ValueError("broken")

    async def both() -> None:
        witness = Witness(handle)
        await asyncio.gather(witness("S0", [event(0)]), witness("S1", [event(0, "S1")]))
        assert witness.wrong == []
        await asyncio.gather(witness("S0", [event(1)]), witness("S0", [event(2)]))
        assert witness.wrong == ["S0: two calls at once"]
        with pytest.raises(ValueError, match="broken"):
            await witness("S0", [event(5)])
        assert [each.index for each in witness.handled["S0"]] == [0, 1, 2]

    asyncio.run(both())
