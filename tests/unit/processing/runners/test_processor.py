import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.errors import AlreadyUsed, BadParameter, Unavailable
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.sources.memory import MemorySource
from penstock.processing.together import Together
from tests.failing import has_code

SOON_SECONDS = 300.0


def handle(stream: str, events: Sequence[Any]) -> None: ...


async def handle_async(stream: str, events: Sequence[Any]) -> None: ...


class Closing(MemorySource):
    """Tells whether it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True
        super().close()


@pytest.mark.parametrize("timeout", [None, "5", True, float("nan")], ids=repr)
def test_timeout_of_a_wait_is_in_seconds(timeout: Any) -> None:
    with LocalProcessor(handle, MemorySource()) as running:
        with pytest.raises(BadParameter, match=r"timeout is .*; allowed: a number of seconds"):
            running.wait_until_caught_up(timeout)
        if timeout is not None:
            with pytest.raises(BadParameter, match=r"timeout is .*; allowed: a number of seconds, or None: however"):
                running.wait(timeout)
        running.wait_until_caught_up(float("inf"))


def test_wait_for_a_processor_that_is_not_started_fails() -> None:
    processor = LocalProcessor(handle, MemorySource())
    with pytest.raises(Unavailable, match=r"the processor is not started: start\(\) does that"):
        processor.wait_until_caught_up(SOON_SECONDS)
    with pytest.raises(Unavailable, match=r"the processor is not started: start\(\) does that"):
        processor.wait()
    with processor:
        processor.wait_until_caught_up(SOON_SECONDS)
    with pytest.raises(Unavailable, match="the processor has ended"):
        processor.wait_until_caught_up(SOON_SECONDS)


def test_processor_is_started_once() -> None:
    checkpoints = MemoryCheckpoints("mailer")
    with LocalProcessor(handle, MemorySource(), checkpoints=checkpoints) as running:
        with pytest.raises(
            AlreadyUsed,
            check=has_code("already-started"),
            match=r"mailer was started or stopped before.* Create another processor",
        ):
            running.start()
        running.wait_until_caught_up(SOON_SECONDS)
    with pytest.raises(AlreadyUsed, check=has_code("already-started")), running:
        pass


@pytest.mark.parametrize("way", ["a function", "a coroutine", "several streams"])
def test_handler_may_stop_its_processor_and_its_outcome_counts(way: str) -> None:
    source, checkpoints = MemorySource(), MemoryCheckpoints("mailer")
    source.append("S1", [1])

    def stop(*_: Any) -> None:
        processor.stop()

    async def stop_in_a_loop(stream: str, events: Sequence[Any]) -> None:
        stop(stream, events)

    handlers = {"a function": stop, "a coroutine": stop_in_a_loop, "several streams": Together(stop)}
    processor = LocalProcessor(handlers[way], source, checkpoints=checkpoints).start()

    assert processor.wait(SOON_SECONDS / 2), "it waits for no call that waits for it"
    processor.stop()
    assert checkpoints.positions() == {"0": 1}


@pytest.mark.parametrize("handler", [handle, handle_async])
def test_stopped_processor_that_was_never_started_closes_its_source(
    handler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops, make = list[asyncio.AbstractEventLoop](), asyncio.new_event_loop
    monkeypatch.setattr(asyncio, "new_event_loop", lambda: loops.append(make()) or loops[-1])
    source = Closing()
    processor = LocalProcessor(handler, source)
    processor.stop()
    processor.stop()

    assert source.is_closed
    assert processor.wait(SOON_SECONDS)
    assert all(loop.is_closed() for loop in loops)
    assert bool(loops) is (handler is handle_async)
    with pytest.raises(AlreadyUsed, check=has_code("already-started")):
        processor.start()
