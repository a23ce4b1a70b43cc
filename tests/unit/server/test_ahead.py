import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.server.ahead import PIECES_AHEAD, TURN_PIECES, Ahead, Piece, Result


@pytest.fixture
def workers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


class Makes:
    """Makes so many pieces, each with its number, and tells how many it has made."""

    def __init__(self, count: int, failing: int | None = None) -> None:
        self.count, self.failing, self.made = count, failing, 0
        self._guard = threading.Lock()

    def await_made(self, count: int) -> None:
        while self.made < count:
            time.sleep(0.001)

    def __call__(self) -> Piece:
        assert self._guard.acquire(blocking=False), "two are being made at once"
        try:
            if self.made == self.failing:
                raise ZeroDivisionError(self.made)
            self.made += 1
            return Piece(b"%d" % self.made, self.made, more=self.made < self.count)
        finally:
            self._guard.release()


def runs_in(workers: ThreadPoolExecutor) -> Callable[[Callable[[], Result]], Awaitable[Result]]:
    return lambda function: asyncio.get_running_loop().run_in_executor(workers, function)


async def rest_of(ahead: Ahead) -> list[Piece]:
    pieces = [await ahead.next()]
    while pieces[-1].more:
        pieces.append(await ahead.next())
    return pieces


@pytest.mark.parametrize(
    "count", [1, PIECES_AHEAD, PIECES_AHEAD + 1, TURN_PIECES, TURN_PIECES + 1, 5 * TURN_PIECES + 3]
)
@pytest.mark.parametrize("pause", [None, 0, 0.002])
def test_pieces_come_in_their_order_and_all(workers: ThreadPoolExecutor, count: int, pause: float | None) -> None:
    async def run() -> None:
        ahead = Ahead(runs_in(workers), Makes(count))
        for number in range(1, count + 1):
            if pause is not None:
                await asyncio.sleep(pause)
            assert await ahead.next() == Piece(b"%d" % number, number, more=number < count)
        await ahead.stop()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_no_more_is_made_than_there_is_room_for(workers: ThreadPoolExecutor) -> None:
    makes = Makes(100)

    async def run() -> None:
        ahead = Ahead(runs_in(workers), makes)
        for taken in range(5):
            await asyncio.to_thread(makes.await_made, taken + PIECES_AHEAD)
            await asyncio.sleep(0.02)
            assert makes.made == taken + PIECES_AHEAD
            await ahead.next()
        await ahead.stop()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_worker_is_left_to_others_now_and_then(workers: ThreadPoolExecutor) -> None:
    """One thread makes for two, whose first would otherwise have all of its own made before."""
    first, second = Makes(10 * TURN_PIECES), Makes(1)

    async def run() -> None:
        ahead = Ahead(runs_in(workers), first)
        other = asyncio.ensure_future(Ahead(runs_in(workers), second).next())
        while not other.done():
            await ahead.next()
        assert first.made <= 3 * TURN_PIECES
        assert len(await rest_of(ahead)) > 0

    asyncio.run(asyncio.wait_for(run(), 30))


def test_what_was_made_before_a_failure_is_handed_on_before_it(workers: ThreadPoolExecutor) -> None:
    async def run() -> None:
        ahead = Ahead(runs_in(workers), Makes(100, failing=3))
        assert [(await ahead.next()).kept for _ in range(3)] == [1, 2, 3]
        with pytest.raises(ZeroDivisionError):
            await ahead.next()
        await ahead.stop()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_after_the_stop_nothing_is_made(workers: ThreadPoolExecutor) -> None:
    makes = Makes(100)

    async def run() -> None:
        ahead = Ahead(runs_in(workers), makes)
        await ahead.next()
        await ahead.stop()

    asyncio.run(asyncio.wait_for(run(), 30))
    made = makes.made
    workers.submit(int).result()

    assert makes.made == made <= 1 + PIECES_AHEAD
