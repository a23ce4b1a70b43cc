"""Runs what is awaited at once, as far as it goes without waiting: most of what is sent need not wait.

A task of its own costs more than such a sending. From Python 3.12 on asyncio has eager tasks for that.

Waits without a thread: for events, and for a client's leaving.

One task listens for the client's leaving; waiting and sending are raced against it. Starlette's own streaming would
notice only when a send fails, which a wait never does.

Makes what is sent some pieces ahead of who sends it.

A worker thread goes on by itself for as long as there is room. Were it asked for every piece, it would begin each only
when the thread that sends lets it: the two would work by turns.

Gathers what a stream sends into pieces that are worth sending; in worker threads.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from threading import Semaphore
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from starlette.types import Receive

from penstock.errors import PenstockError
from penstock.hub.log.watch import Watch
from penstock.server.http.encoding import StreamEncoder
from penstock.wire.log.nakadi import PART_BYTES

Result = TypeVar("Result")


def run_eagerly(awaitable: Awaitable[Result]) -> "asyncio.Future[Result]":
    """Run *awaitable* in the caller's task up to its first wait, and the rest in a task of its own.

    The future is done on return if *awaitable* never waits. A context manager that belongs to one task, such as
    `asyncio.timeout`, must not be entered before the first wait and left after it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()
    running = awaitable.__await__()
    try:
        awaited = next(running)
    except StopIteration as ended:
        done.set_result(ended.value)
    except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
        done.set_exception(error)
    else:
        return loop.create_task(_Begun(running, awaited))
    return done


class _Begun(Coroutine[Any, Any, Result]):
    """The rest of a coroutine that has run up to its first wait.

    A task that is cancelled before its first turn throws into its coroutine at once. This one is begun already, so it
    is cancelled where it waits, and may wait again while it cleans up.
    """

    def __init__(self, running: Generator[Any, Any, Result], awaited: Any) -> None:
        self._running = running
        self._awaited = awaited
        self._handed_over = False
        self._mark_awaited(is_awaited=False)  # Others may await the same future before the task of this one begins.

    def send(self, value: Any) -> Any:
        if self._handed_over:
            return self._running.send(value)
        self._handed_over = True
        self._mark_awaited(is_awaited=True)
        return self._awaited

    def _mark_awaited(self, *, is_awaited: bool) -> None:
        """Set the mark that a future hands to the task which awaits it, and which only one task may see."""
        if asyncio.isfuture(self._awaited):
            self._awaited._asyncio_future_blocking = is_awaited

    def throw(self, *error: Any) -> Any:
        self._handed_over = True
        return self._running.throw(*error)

    def close(self) -> None:
        self._running.close()

    def __await__(self) -> Generator[Any, Any, Result]:
        return self._running


REFRESH_INTERVAL: Final = 1.0
"""How often it is asked whether something is still wanted that takes long to be sent."""
Leaving = asyncio.Future[None]
"""Done once the client has left."""


def leaving(receive: Receive) -> Leaving:
    """Begin to listen for the client's leaving; to be cancelled in the end."""
    return asyncio.ensure_future(_left(receive))


async def unless(left: Leaving, sending: Awaitable[Any], seconds: float | None = None) -> bool:
    """Await *sending*; False, and leave it, when the client leaves first, or when it takes longer than *seconds*."""
    task = run_eagerly(sending)
    try:
        if not task.done():
            await asyncio.wait({task, left}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return _sent(task, left)
    finally:
        task.cancel()


async def while_wanted(left: Leaving, sending: Awaitable[bool], is_wanted: Callable[[], Awaitable[bool]]) -> bool:
    """Await *sending*, which tells whether it has sent something, as `unless` does.

    False, too, once it *is_wanted* no more, which is asked every `REFRESH_INTERVAL`.
    """
    task = run_eagerly(sending)
    either: set[asyncio.Future[Any]] = {task, left}
    try:
        while not task.done():
            await asyncio.wait(either, timeout=REFRESH_INTERVAL, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and (left.done() or not await is_wanted()):
                break
        return _sent(task, left) and task.result()
    finally:
        task.cancel()


async def something_new(
    watch: Watch, offsets: Mapping[int, int], seconds: float, left: Leaving, allowed: Callable[[], None]
) -> bool:
    """Wait until there may be something at *offsets*, which are by partition id.

    False: time is up, the client is gone, or the hub is stopping. *allowed* raises when whoever waits may not read.

    Raises:
        Blocked: what was allowed when the wait began is so no more.
    """
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, woken)

    ticket = watch.wait(offsets, wake)
    try:
        allowed()  # From here on it wakes when that changes.
        await asyncio.wait({woken, left}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watch.cancel(ticket)
    allowed()
    return woken.done() and not left.done() and not watch.draining


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _sent(task: "asyncio.Future[Any]", left: Leaving) -> bool:
    """Tell whether something was sent to who is still there."""
    if not task.done():
        return False
    try:
        task.result()
    except OSError:
        return False  # How a server tells that the client is gone (ASGI 2.4).
    return not left.done()  # Sending to one who has left ends at once too, on servers that keep to older ASGI.


def _settle(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)


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


GATHER_BYTES: Final = PART_BYTES
"""Parts smaller than this are gathered into one piece."""


class Sent(Protocol):
    """A batch of events."""

    @property
    def events(self) -> Any:
        """The events."""


Batch = TypeVar("Batch", bound=Sent)


class Gathering:
    """The pieces of one stream, never two of which are made at once."""

    def __init__(self, encoding: str | None, bytes_min: int = GATHER_BYTES) -> None:
        """Encode them as *encoding* says; parts are gathered to *bytes_min* and no further."""
        self._bytes_min = bytes_min
        self._encode = StreamEncoder(encoding) if encoding else None
        self._parts: Iterator[bytes] = iter(())
        self._failed: PenstockError | None = None
        self._sent = 0

    def begin(self, parts: Iterator[bytes]) -> Piece:
        """Return the first piece of *parts*, which are made as they are needed: see `next`."""
        self._parts = parts
        return self.next()

    def next(self) -> Piece:
        """Return the next piece; it tells how many events it has, and whether another one follows.

        Raises:
            PenstockError: what making a part has raised; not before all that was made has been returned.
        """
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        gathered, size, more, before = [], 0, False, self._sent
        try:
            for each in self._parts:
                gathered.append(each)
                size += len(each)
                if size >= self._bytes_min:
                    more = True
                    break
        except PenstockError as error:
            if not gathered:
                raise
            self._failed, more = error, True
        body = gathered[0] if len(gathered) == 1 else b"".join(gathered)
        if body and self._encode is not None:
            body = self._encode.compress(body)
        return Piece(body, self._sent - before, more)

    def counted(self, batches: "deque[Batch]") -> "Iterator[Batch]":
        """Return *batches*, each held no longer than until the next one is asked for, and count their events."""
        while batches:
            batch = batches.popleft()
            self._sent += len(batch.events)
            yield batch

    def end(self) -> bytes:
        """Return what is sent last."""
        return self._encode.end() if self._encode else b""


async def send_ahead(
    piece: Piece,
    make: Callable[[], Piece],
    run: Run,
    send: Callable[[Piece], Awaitable[bool]],
    served: Callable[[int], None],
) -> bool:
    """Send *piece* and the rest, which is made meanwhile; False: the client is gone, or takes nothing.

    So says *send*; *served* is told how many events each piece has that was sent.
    """
    ahead = Ahead(run, make) if piece.more else None
    try:
        while True:
            if piece.body and not await send(piece):
                return False
            served(piece.kept)
            if ahead is None or not piece.more:
                return True
            piece = await ahead.next()
    finally:
        if ahead:
            await ahead.stop()
