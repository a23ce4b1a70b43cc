"""What is awaited begins at once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.server.eager import begun


def run(act: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await asyncio.wait_for(act(), 30)

    return asyncio.run(main())


def test_what_never_waits_is_done_at_once() -> None:
    async def seven() -> int:
        return 7

    async def fails() -> None:
        raise ZeroDivisionError

    async def act() -> None:
        assert begun(seven()).result() == 7
        assert isinstance(begun(fails()).exception(), ZeroDivisionError)
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        done.set_result(8)
        assert begun(done).result() == 8, "anything that can be awaited"

    run(act)


def test_what_waits_has_begun_and_goes_on_by_itself() -> None:
    noted: list[str] = []

    async def waits() -> str:
        noted.append("begun")
        for turn in ("a", "b"):
            await asyncio.sleep(0.001)
            noted.append(turn)
        await asyncio.sleep(0)
        return "ended"

    async def act() -> str:
        future = begun(waits())
        assert (noted, future.done()) == (["begun"], False)
        return await future

    assert run(act) == "ended"
    assert noted == ["begun", "a", "b"]


def test_what_fails_after_it_has_waited_says_so() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(lambda: begun(fails()))


def test_what_is_cancelled_before_its_task_has_run_is_ended_too() -> None:
    noted: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            noted.append("tidied up")

    async def act() -> None:
        future = begun(waits())
        future.cancel()
        await asyncio.wait({future})
        assert noted == ["tidied up"]

    run(act)


@pytest.mark.parametrize("waits_before", [0, 1])
def test_what_is_cancelled_hears_it_where_it_waits(waits_before: int) -> None:
    noted: list[str] = []
    never = asyncio.Event

    async def waits() -> str:
        for _ in range(waits_before):
            await asyncio.sleep(0)
        try:
            await never().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.001)
            noted.append("tidied up")
            raise
        return "ended"

    async def act() -> None:
        future = begun(waits())
        await asyncio.sleep(0.01)
        future.cancel()
        await asyncio.wait({future})
        assert future.cancelled()

    run(act)
    assert noted == ["tidied up"]
