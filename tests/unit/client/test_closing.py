import asyncio

import pytest

from penstock.client.closing import AsyncClosing, Closing


class Door(Closing):
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class AsyncDoor(AsyncClosing):
    def __init__(self) -> None:
        self.closed = 0

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1


def test_it_is_closed_at_the_end_of_its_block_and_not_before() -> None:
    with Door() as door:
        assert door.closed == 0

    assert door.closed == 1


def test_what_goes_wrong_in_the_block_comes_out_once_it_is_closed() -> None:
    with pytest.raises(ZeroDivisionError), Door() as door:
        raise ZeroDivisionError

    assert door.closed == 1


def test_an_asynchronous_one_is_closed_likewise() -> None:
    async def use(*, fails: bool) -> AsyncDoor:
        door = AsyncDoor()
        try:
            async with door as entered:
                assert entered is door
                assert door.closed == 0
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            assert fails
        else:
            assert not fails, "what goes wrong in the block comes out"
        return door

    assert [asyncio.run(use(fails=fails)).closed for fails in (False, True)] == [1, 1]
