"""`run_eagerly` runs an awaitable up to its first wait at once."""

import asyncio
from typing import Any

import pytest

from penstock.server.http.streaming import run_eagerly

pytestmark = pytest.mark.anyio


async def test_awaitable_that_never_waits_is_done_at_once() -> None:
    async def seven() -> int:
        return 7

    async def fails() -> None:
        raise ZeroDivisionError

    assert run_eagerly(seven()).result() == 7
    assert isinstance(run_eagerly(fails()).exception(), ZeroDivisionError)
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    done.set_result(8)
    assert run_eagerly(done).result() == 8, "anything that can be awaited"


async def test_awaitable_that_waits_has_begun_and_continues_by_itself() -> None:
    noted: list[str] = []

    async def waits() -> str:
        noted.append("begun")
        for turn in ("a", "b"):
            await asyncio.sleep(0.001)
            noted.append(turn)
        await asyncio.sleep(0)
        return "ended"

    future = run_eagerly(waits())
    assert (noted, future.done()) == (["begun"], False)
    assert await future == "ended"
    assert noted == ["begun", "a", "b"]


async def test_failure_after_a_wait_is_raised() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_eagerly(fails())


@pytest.mark.parametrize(
    ("waits_before", "turns"), [(0, 0), (0, 3), (1, 3)], ids=["before its task runs", "in its first wait", "later"]
)
async def test_cancelled_awaitable_cleans_up_where_it_waits(waits_before: int, turns: int) -> None:
    noted: list[str] = []
    complaints: list[Any] = []

    async def waits() -> None:
        for _ in range(waits_before):
            await asyncio.sleep(0)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            noted.append("tidied up")

    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    future = run_eagerly(waits())
    for _ in range(turns):
        await asyncio.sleep(0)
    future.cancel()
    await asyncio.wait({future})
    assert future.cancelled()
    assert (noted, complaints) == (["tidied up"], [])


async def test_awaitables_that_wait_for_one_future_all_get_its_result() -> None:
    shared: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait() -> int:
        return await shared

    waiting = [run_eagerly(wait()), asyncio.ensure_future(wait()), run_eagerly(wait())]
    await asyncio.sleep(0)
    shared.set_result(7)
    assert await asyncio.gather(*waiting) == [7, 7, 7]


async def test_cancelled_awaitable_that_catches_its_cancellation_ends_as_it_says() -> None:
    async def waits() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "caught"
        return "never"

    future = run_eagerly(waits())
    future.cancel()
    assert await future == "caught"
