"""Results of other threads come to the event loop that waits for them."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from penstock.core.access import Caller
from penstock.hub.log.publish import AppendResult
from penstock.server.limits import CURRENT_USAGE, LARGE_BYTES, Limiter, UsageLimits
from penstock.server.state import State
from tests.unit.hub.feeds import a_feed

pytestmark = pytest.mark.anyio


def a_state() -> State:
    return State(lambda: pytest.fail("no hub is needed"))


async def test_results_and_errors_of_a_thread_are_delivered_to_their_waiters() -> None:
    state, futures = a_state(), [Future[int]() for _ in range(100)]
    waiting = [asyncio.ensure_future(state.wait(each)) for each in futures]

    def end() -> None:
        for number, future in enumerate(futures):
            if number % 10:
                future.set_result(number)
            else:
                future.set_exception(ValueError(number))

    thread = threading.Thread(target=end)
    thread.start()
    found: list[Any] = await asyncio.gather(*waiting, return_exceptions=True)
    thread.join()
    assert [each.args[0] if isinstance(each, ValueError) else each for each in found] == [*range(100)]
    assert [isinstance(each, ValueError) for each in found] == [number % 10 == 0 for number in range(100)]


async def test_time_that_the_committer_has_used_counts_as_work_of_a_large_request() -> None:
    limiter = Limiter(UsageLimits())
    other, large = limiter.begin(Caller("service", "other")), limiter.begin(Caller("service", "large"))
    for usage, size in ((other, 0), (large, LARGE_BYTES)):
        assert usage.take_turn(size) is None
    CURRENT_USAGE.set(large)
    committed = Future[AppendResult]()
    waiting = a_state().wait(committed)

    committed.set_result(AppendResult(a_feed(), events=20_000, next_offsets={}, seconds=100.0))
    await waiting

    assert large.caller.work.seconds_left(limiter.monotonic()) > 100.0
    assert other.caller.work.seconds_left(limiter.monotonic()) <= 0


async def test_waiter_that_is_cancelled_cancels_what_it_waits_for_and_no_other() -> None:
    state, one, other = a_state(), Future[int](), Future[int]()
    cancelled, kept = state.wait(one), state.wait(other)
    cancelled.cancel()
    await asyncio.sleep(0)
    assert one.cancelled()
    other.set_result(1)
    assert await kept == 1


async def test_future_that_is_cancelled_cancels_its_waiter() -> None:
    future = Future[int]()
    waiting = a_state().wait(future)
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_application_of_a_closed_loop_is_served_by_another_loop() -> None:
    state, late = a_state(), Future[int]()

    async def leave() -> None:
        state.wait(late)

    async def stay() -> int:
        future = Future[int]()
        waiting = state.wait(future)
        threading.Timer(0.01, future.set_result, [2]).start()
        return await waiting

    asyncio.run(leave())
    late.set_result(1)
    assert asyncio.run(asyncio.wait_for(stay(), 300)) == 2
