"""Pieces of an answer are made in a worker thread, a few ahead of the one that is sent."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.server.http import streaming
from penstock.server.http.streaming import PIECES_AHEAD, TURN_PIECES, Piece, PiecesAhead, Result
from penstock.server.limits import Limiter, UsageLimits

pytestmark = pytest.mark.anyio


@pytest.fixture
def workers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


class Makes:
    """Makes *count* pieces, each with its number, and counts them."""

    def __init__(self, count: int, failing: int | None = None) -> None:
        self.count, self.failing, self.made = count, failing, 0
        self._guard = threading.Lock()

    def __call__(self) -> Piece:
        assert self._guard.acquire(blocking=False), "two are being made at once"
        try:
            if self.made == self.failing:
                raise ZeroDivisionError(self.made)
            self.made += 1
            return Piece(b"%d" % self.made, self.made, more=self.made < self.count)
        finally:
            self._guard.release()


def run_in(workers: ThreadPoolExecutor) -> Callable[[Callable[[], Result]], Awaitable[Result]]:
    return lambda function: asyncio.get_running_loop().run_in_executor(workers, function)


async def rest_of(ahead: PiecesAhead) -> list[Piece]:
    pieces = [await ahead.next()]
    while pieces[-1].more:
        pieces.append(await ahead.next())
    return pieces


@pytest.mark.parametrize(
    "count", [1, PIECES_AHEAD, PIECES_AHEAD + 1, TURN_PIECES, TURN_PIECES + 1, 5 * TURN_PIECES + 3]
)
@pytest.mark.parametrize("pause", [None, 0, 0.0005])
async def test_pieces_come_all_and_in_order(workers: ThreadPoolExecutor, count: int, pause: float | None) -> None:
    ahead = PiecesAhead(run_in(workers), Makes(count))
    for number in range(1, count + 1):
        if pause is not None:
            await asyncio.sleep(pause)
        assert await ahead.next() == Piece(b"%d" % number, number, more=number < count)
    await ahead.stop()


async def test_pieces_are_made_up_to_the_limit_ahead(workers: ThreadPoolExecutor) -> None:
    makes = Makes(100)
    ahead = PiecesAhead(run_in(workers), makes)
    for taken in range(5):
        while makes.made < taken + PIECES_AHEAD:  # noqa: ASYNC110 - no thread says so
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert makes.made == taken + PIECES_AHEAD
        await ahead.next()
    await ahead.stop()


async def test_few_pieces_are_made_ahead_where_there_is_no_room(
    workers: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "PIECES_AHEAD", 20)
    limiter, makes = Limiter(UsageLimits().replace(["bytes-held=1"])), Makes(100)

    def make() -> Piece:
        time.sleep(0.002)  # The event loop hears of the piece before.
        return makes()

    usage = limiter.begin("192.0.2.1")
    ahead = PiecesAhead(run_in(workers), make, usage)
    for taken in range(5):
        await asyncio.sleep(0.05)
        assert makes.made <= taken + 3
        piece = await ahead.next()
        usage.release_answer(piece.size)
    await ahead.stop()
    usage.end()

    assert limiter.begin("192.0.2.1").caller.bytes_held == 0


async def test_worker_thread_takes_turns_between_answers(workers: ThreadPoolExecutor) -> None:
    """One thread makes for two, whose first would otherwise have all of its own made before."""
    first, second = Makes(10 * TURN_PIECES), Makes(1)
    ahead = PiecesAhead(run_in(workers), first)
    other = asyncio.ensure_future(PiecesAhead(run_in(workers), second).next())
    while not other.done():
        await ahead.next()
    assert first.made <= 3 * TURN_PIECES
    assert len(await rest_of(ahead)) > 0


async def test_pieces_before_a_failure_come_before_it(workers: ThreadPoolExecutor) -> None:
    ahead = PiecesAhead(run_in(workers), Makes(100, failing=3))
    assert [(await ahead.next()).kept for _ in range(3)] == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        await ahead.next()
    await ahead.stop()


async def test_stop_ends_the_making(workers: ThreadPoolExecutor) -> None:
    makes = Makes(100)
    ahead = PiecesAhead(run_in(workers), makes)
    await ahead.next()
    await ahead.stop()
    made = makes.made
    workers.submit(int).result()

    assert makes.made == made <= 1 + PIECES_AHEAD
