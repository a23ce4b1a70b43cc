"""Sending that ends as soon as the client leaves, or is no longer wanted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.server.http import streaming as waiting
from penstock.server.http.streaming import await_unless_disconnected, await_while_wanted

Wanted = Callable[[], Awaitable[bool]]


def run(act: Callable[["asyncio.Future[None]"], Awaitable[Any]]) -> Any:
    """Return the result of *act*, which is given a future that is done when the client leaves."""

    async def main() -> Any:
        return await act(asyncio.get_running_loop().create_future())

    return asyncio.run(main())


async def sends(*, sent: bool = True) -> bool:
    return sent


async def never() -> bool:
    await asyncio.Event().wait()
    return True


async def fails() -> bool:
    raise OSError("the client is gone")


def asking(*answers: bool) -> tuple[Wanted, list[bool]]:
    """Return a function that gives these answers, and the list of those that it has given."""
    given, left = [], list(answers)

    async def is_wanted() -> bool:
        given.append(left.pop(0))
        return given[-1]

    return is_wanted, given


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "REFRESH_INTERVAL", 0.01)


@pytest.mark.parametrize("sent", [True, False])
def test_sending_that_never_waits_is_not_asked_about(sent: bool) -> None:
    is_wanted, given = asking()
    assert run(lambda left: await_while_wanted(left, sends(sent=sent), is_wanted)) is sent
    assert given == []


@pytest.mark.parametrize("ends", ["is unwanted", "cannot be asked about", "is cancelled"])
def test_sending_is_cancelled_once_it_ends_early(ends: str) -> None:
    ended: list[str] = []
    is_wanted, given = asking(True, True, False)

    async def sending() -> bool:
        try:
            return await never()
        finally:
            ended.append("cancelled")

    async def act(left: "asyncio.Future[None]") -> None:
        if ends == "is unwanted":
            assert await await_while_wanted(left, sending(), is_wanted) is False
            assert given == [True, True, False]
        elif ends == "cannot be asked about":
            with pytest.raises(OSError, match="gone"):
                await await_while_wanted(left, sending(), fails)
        else:
            waiting = asyncio.ensure_future(await_unless_disconnected(left, sending()))
            await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.wait({waiting})
        await asyncio.sleep(0)

    run(act)
    assert ended == ["cancelled"]


def test_sending_fails_when_the_client_leaves_or_the_connection_breaks() -> None:
    async def leave(left: "asyncio.Future[None]") -> bool:
        asyncio.get_running_loop().call_later(0.005, left.set_result, None)
        return await await_while_wanted(left, never(), asking(True, True, True)[0])

    assert run(leave) is False
    assert run(lambda left: await_while_wanted(left, fails(), asking()[0])) is False
    assert run(lambda left: await_unless_disconnected(left, fails())) is False


def test_sending_fails_for_a_client_that_has_left_before() -> None:
    """Servers of older ASGI versions accept the message all the same."""

    async def act(left: "asyncio.Future[None]") -> list[bool]:
        left.set_result(None)
        return [await await_while_wanted(left, sends(), asking()[0]), await await_unless_disconnected(left, sends())]

    assert run(act) == [False, False]


def test_sending_is_limited_by_its_seconds() -> None:
    assert run(lambda left: await_unless_disconnected(left, never(), 0.01)) is False
    assert run(lambda left: await_unless_disconnected(left, sends(), 300)) is True
