"""Waiting that ends as soon as somebody leaves, or wants nothing more."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.server import waiting
from penstock.server.waiting import unless, while_wanted

Wanted = Callable[[], Awaitable[bool]]


def run(act: Callable[["asyncio.Future[None]"], Awaitable[Any]]) -> Any:
    """Return what *act* does with somebody who may leave."""

    async def main() -> Any:
        return await asyncio.wait_for(act(asyncio.get_running_loop().create_future()), 30)

    return asyncio.run(main())


async def sends(*, sent: bool = True) -> bool:
    return sent


async def never() -> bool:
    await asyncio.Event().wait()
    return True


async def fails() -> bool:
    raise OSError("the client is gone")


def asked(*answers: bool) -> tuple[Wanted, list[bool]]:
    """Return one that is asked whether something is wanted, and what it has answered."""
    given, left = [], list(answers)

    async def is_wanted() -> bool:
        given.append(left.pop(0))
        return given[-1]

    return is_wanted, given


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 0.01)


@pytest.mark.parametrize("sent", [True, False])
def test_what_is_sent_at_once_is_not_asked_for(sent: bool) -> None:
    is_wanted, given = asked()
    assert run(lambda left: while_wanted(left, sends(sent=sent), is_wanted)) is sent
    assert given == []


def test_what_takes_long_is_left_once_it_is_not_wanted() -> None:
    is_wanted, given = asked(True, True, False)
    assert run(lambda left: while_wanted(left, never(), is_wanted)) is False
    assert given == [True, True, False]


def test_what_is_left_is_cancelled() -> None:
    ended: list[str] = []

    async def sending() -> bool:
        try:
            return await never()
        finally:
            ended.append("cancelled")

    async def act(left: "asyncio.Future[None]") -> bool:
        sent = await while_wanted(left, sending(), asked(False)[0])
        await asyncio.sleep(0)
        return sent

    assert run(act) is False
    assert ended == ["cancelled"]


@pytest.mark.parametrize("what", ["while it is asked", "while it waits"])
def test_who_is_cancelled_leaves_nothing_behind(what: str) -> None:
    ended: list[str] = []

    async def sending() -> bool:
        try:
            return await never()
        finally:
            ended.append("cancelled")

    async def fails() -> bool:
        raise ZeroDivisionError

    async def act(left: "asyncio.Future[None]") -> None:
        if what == "while it is asked":
            with pytest.raises(ZeroDivisionError):
                await while_wanted(left, sending(), fails)
        else:
            waiting = asyncio.ensure_future(unless(left, sending()))
            await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.wait({waiting})
        await asyncio.sleep(0)

    run(act)
    assert ended == ["cancelled"]


def test_a_client_that_has_left_or_cannot_be_sent_to_was_sent_nothing() -> None:
    async def leave(left: "asyncio.Future[None]") -> bool:
        asyncio.get_running_loop().call_later(0.005, left.set_result, None)
        return await while_wanted(left, never(), asked(True, True, True)[0])

    assert run(leave) is False
    assert run(lambda left: while_wanted(left, fails(), asked()[0])) is False
    assert run(lambda left: unless(left, fails())) is False


def test_sending_to_one_who_has_left_is_not_sent() -> None:
    """Servers of older ASGI take what is sent to nobody."""

    async def act(left: "asyncio.Future[None]") -> list[bool]:
        left.set_result(None)
        return [await while_wanted(left, sends(), asked()[0]), await unless(left, sends())]

    assert run(act) == [False, False]


def test_something_is_awaited_for_no_longer_than_said() -> None:
    assert run(lambda left: unless(left, never(), 0.01)) is False
    assert run(lambda left: unless(left, sends(), 5)) is True
