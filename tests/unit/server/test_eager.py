"""`begun` runs an awaitable up to its first wait at once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.server.http.streaming import begun


def run(act: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await act()

    return asyncio.run(main())


def test_awaitable_that_never_waits_is_done_at_once() -> None:
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


def test_awaitable_that_waits_has_begun_and_continues_by_itself() -> None:
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


def test_failure_after_a_wait_is_raised() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(lambda: begun(fails()))


@pytest.mark.parametrize(
    ("waits_before", "turns"), [(0, 0), (0, 3), (1, 3)], ids=["before its task runs", "in its first wait", "later"]
)
def test_cancelled_awaitable_cleans_up_where_it_waits(waits_before: int, turns: int) -> None:
    noted: list[str] = []

    async def waits() -> None:
        for _ in range(waits_before):
            await asyncio.sleep(0)
        try:
            await asyncio.Event().wait()
        finally:
            if turns:
                await asyncio.sleep(0.001)
            noted.append("tidied up")

    async def act() -> None:
        future = begun(waits())
        for _ in range(turns):
            await asyncio.sleep(0)
        future.cancel()
        await asyncio.wait({future})
        assert future.cancelled()

    run(act)
    assert noted == ["tidied up"]
