import asyncio
import gc
import multiprocessing
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.processing.handlers import EventLoop
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.sources.memory import MemorySource


async def own() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_calls_of_a_thread_share_a_loop_and_other_threads_have_their_own() -> None:
    loop = EventLoop()
    first = loop.run(own())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(loop.run, own()).result(300) is not first
    assert loop.run(own()) is first


def test_unused_loop_is_closed() -> None:
    loop = EventLoop()
    found = loop.run(own())
    del loop
    gc.collect()
    assert found.is_closed()


def test_loop_that_is_garbage_together_with_its_user_is_closed_without_complaint() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(20):
            circle: list[Any] = [EventLoop()]
            circle.append(circle)
            circle.append(circle[0].run(own()))
            del circle
        gc.collect()
    assert [str(each.message) for each in told] == []


def test_forked_process_has_its_own_loop() -> None:
    loop = EventLoop()
    first = loop.run(own())

    def told(result: Any) -> None:
        result.put(loop.run(own()) is not first)

    forked = multiprocessing.get_context("fork")
    result = forked.Queue()
    child = forked.Process(target=told, args=(result,))
    child.start()
    assert result.get(timeout=300) is True
    child.join()
    assert loop.run(own()) is first
    loop.run(asyncio.wait_for(asyncio.to_thread(time.sleep, 0.1), 300))


def test_values_kept_by_a_handler_between_calls_stay_usable() -> None:
    changed: dict[str, Any] = {}

    async def handle(stream: str, events: Sequence[Any]) -> None:
        event = changed.setdefault("event", asyncio.Event())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(event.wait(), 0.001)  # It belongs to the loop that has waited for it first.

    source = MemorySource()
    for number in range(3):
        source.append(f"S{number}", [number])
    running = InlineProcessor(handle, source)
    running.drain()
    assert running.engine.handled == 3
