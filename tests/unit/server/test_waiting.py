"""Sending that ends as soon as the client leaves, or is no longer wanted."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.server.http import streaming as waiting
from penstock.server.http.streaming import await_unless_disconnected, await_while_wanted

pytestmark = pytest.mark.anyio
Wanted = Callable[[], Awaitable[bool]]


@pytest.fixture
async def left() -> "asyncio.Future[None]":
    """A future that is done when the client leaves."""
    return asyncio.get_running_loop().create_future()


async def sends(*, sent: bool = True) -> bool:
    return sent


async def never() -> bool:
    await asyncio.Event().wait()
    return True


async def fails() -> bool:
    raise OSError("the client is gone")


def asking(*answers: bool) -> tuple[Wanted, list[bool]]:
    """Return a function that gives these answers, and the list of those that it has given."""
    given, remaining = [], list(answers)

    async def is_wanted() -> bool:
        given.append(remaining.pop(0))
        return given[-1]

    return is_wanted, given


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "REFRESH_INTERVAL", 0.01)


async def test_sending_that_never_waits_is_not_asked_about(left: "asyncio.Future[None]") -> None:
    is_wanted, given = asking()
    for sent in (True, False):
        assert await await_while_wanted(left, sends(sent=sent), is_wanted) is sent
    assert given == []


@pytest.mark.parametrize("ends", ["is unwanted", "cannot be asked about", "is cancelled"])
async def test_sending_is_cancelled_once_it_ends_early(left: "asyncio.Future[None]", ends: str) -> None:
    ended: list[str] = []
    is_wanted, given = asking(True, True, False)

    async def sending() -> bool:
        try:
            return await never()
        finally:
            ended.append("cancelled")

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
    assert ended == ["cancelled"]


async def test_sending_fails_when_the_connection_breaks_or_the_client_leaves(left: "asyncio.Future[None]") -> None:
    assert await await_while_wanted(left, fails(), asking()[0]) is False
    assert await await_unless_disconnected(left, fails()) is False
    asyncio.get_running_loop().call_later(0.005, left.set_result, None)
    assert await await_while_wanted(left, never(), asking(True, True, True)[0]) is False


async def test_sending_fails_for_a_client_that_has_left_before(left: "asyncio.Future[None]") -> None:
    """Servers of older ASGI versions accept the message all the same."""
    left.set_result(None)
    assert await await_while_wanted(left, sends(), asking()[0]) is False
    assert await await_unless_disconnected(left, sends()) is False


async def test_sending_is_limited_by_its_seconds(left: "asyncio.Future[None]") -> None:
    assert await await_unless_disconnected(left, never(), 0.01) is False
    assert await await_unless_disconnected(left, sends(), 300) is True
