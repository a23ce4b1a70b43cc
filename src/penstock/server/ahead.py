"""Makes what is sent some pieces ahead of who sends it.

A worker thread goes on by itself for as long as there is room. Were it asked for every piece, it would begin each only
when the thread that sends lets it: the two would work by turns.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from threading import Semaphore
from typing import Final, NamedTuple, Protocol, TypeVar

Result = TypeVar("Result")

PIECES_AHEAD: Final = 2
TURN_PIECES: Final = 8
"""After so many pieces a worker thread is left to those who wait for one."""


class Run(Protocol):
    """Runs a function in a worker thread."""

    def __call__(self, function: Callable[[], Result], /) -> Awaitable[Result]:
        """Return the function's result, awaitable."""


class Piece(NamedTuple):
    """Some of a page's bytes."""

    body: bytes
    kept: int
    """How many events the page has up to here."""
    more: bool
    """Whether another one follows."""
    large: bytes = b""
    """More bytes, to be sent behind the body: so many that to join them with it would cost more than to send twice."""


class Ahead:
    """Has pieces made in worker threads, never two at once, and hands them on in their order."""

    def __init__(self, run: Run, make: Callable[[], Piece]) -> None:
        """Begin with the first."""
        self._run = run
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._room = Semaphore(PIECES_AHEAD)
        self._made: deque[Piece] = deque()
        self._told = asyncio.Event()
        self._more, self._stopped = True, False
        self._turn = self._begin_turn()

    async def next(self) -> Piece:
        """Return the next piece, once it is made; raise what making it raised. Not to be asked after the last."""
        while not self._made:
            if self._turn.done():
                await self._turn
                self._turn = self._begin_turn()
            self._told.clear()
            await self._told.wait()
        piece = self._made.popleft()
        self._room.release()
        if self._more and self._turn.done() and not self._turn.exception():
            self._turn = self._begin_turn()
        return piece

    async def stop(self) -> None:
        """Have no further piece made, and wait for the one that is being made."""
        self._stopped = True
        await asyncio.wait({self._turn})

    def _begin_turn(self) -> "asyncio.Future[None]":
        turn = asyncio.ensure_future(self._run(self._take_turn))
        turn.add_done_callback(self._end_turn)
        return turn

    def _end_turn(self, turn: "asyncio.Future[None]") -> None:
        if not turn.cancelled():
            turn.exception()  # Looked at here, should nobody ask for more.
        self._told.set()

    def _take_turn(self) -> None:
        for _ in range(TURN_PIECES):
            if self._stopped or not self._room.acquire(blocking=False):
                return
            piece = self._make()
            self._more = piece.more
            self._loop.call_soon_threadsafe(self._hand_on, piece)
            if not piece.more:
                return

    def _hand_on(self, piece: Piece) -> None:
        self._made.append(piece)
        self._told.set()
