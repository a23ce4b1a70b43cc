"""Answers that are sent piece by piece: made ahead in worker threads, ended when the client disconnects.

Eager sends: most sends need not wait, and a task of its own costs more than such a send. `run_eagerly` makes a task
only for a send that waits, as asyncio's eager tasks do from Python 3.12 on.

Disconnects: one task per answer listens for the client's disconnect, and sends and waits are raced against it.
Starlette's streaming would notice a disconnect only when a send fails, which a wait never does.

Pieces ahead: a worker thread makes pieces for as long as there is room for them. If it was asked for each, it would
begin only when the sending thread lets it, and the two would take turns. Pieces that the client has not taken count
toward the limit `bytes-held`; once it is reached, none is made ahead.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from threading import Semaphore
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from starlette.types import Receive

from penstock.errors import PenstockError
from penstock.hub.log.watch import Watch
from penstock.server.http.encoding import StreamEncoder
from penstock.server.limits import CURRENT_USAGE, RequestUsage
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


STALL_TIMEOUT: Final = 120.0
"""Seconds after which a client that has not taken a piece is given up."""
TAKES_NOTHING: Final = "the client takes nothing"
"""Why the answer to such a client is cut."""
REFRESH_INTERVAL: Final = 1.0
"""Seconds between two questions whether a piece that takes long to be sent is still wanted."""
Disconnect = asyncio.Future[None]
"""A future that is done once the client has disconnected."""


def listen_for_disconnect(receive: Receive) -> Disconnect:
    """Begin to listen for the client's disconnect. Cancel the future in the end."""
    return asyncio.ensure_future(_receive_disconnect(receive))


async def await_unless_disconnected(
    disconnect: Disconnect,
    sending: Awaitable[Any],
    timeout: float | None = None,  # noqa: ASYNC109 - it returns False, and raises nothing
) -> bool:
    """Await *sending*; cancel it and return False if the client disconnects first, or after *timeout*."""
    task = run_eagerly(sending)
    try:
        if not task.done():
            await asyncio.wait({task, disconnect}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return _is_sent(task, disconnect)
    finally:
        task.cancel()


async def await_while_wanted(
    disconnect: Disconnect, sending: Awaitable[bool], is_wanted: Callable[[], Awaitable[bool]]
) -> bool:
    """Await *sending*, which returns whether it has sent something; cancel it if the client disconnects.

    *is_wanted* is called every `REFRESH_INTERVAL`, and cancels it by returning False. Return False in either case.
    """
    task = run_eagerly(sending)
    either: set[asyncio.Future[Any]] = {task, disconnect}
    try:
        while not task.done():
            await asyncio.wait(either, timeout=REFRESH_INTERVAL, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and (disconnect.done() or not await is_wanted()):
                break
        return _is_sent(task, disconnect) and task.result()
    finally:
        task.cancel()


async def wait_for_events(
    watch: Watch,
    offsets: Mapping[int, int],
    timeout: float | None,  # noqa: ASYNC109 - it returns False, and raises nothing
    disconnect: Disconnect,
    check: Callable[[], None],
    *,
    interrupt: "asyncio.Future[None] | None" = None,
) -> bool:
    """Wait until there may be events at *offsets*, by partition id; return whether there may be.

    Return False after *timeout*, if the client disconnects, once *interrupt* is done, and if the hub stops. *check*
    raises if the reader may not read, and is called before and after the wait.

    Raises:
        Blocked: an operator has blocked the reader while it waited.
    """
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, woken)

    ticket = watch.wait(offsets, wake)
    ends = {woken, disconnect} if interrupt is None else {woken, disconnect, interrupt}
    try:
        check()  # From here on a change of permissions wakes the wait.
        await asyncio.wait(ends, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watch.cancel(ticket)
    check()
    return woken.done() and not disconnect.done() and not watch.draining


async def _receive_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _is_sent(task: "asyncio.Future[Any]", disconnect: Disconnect) -> bool:
    """Return whether the send is done and the client still connected."""
    if not task.done():
        return False
    try:
        task.result()
    except OSError:
        return False  # A server says so that the client has disconnected (ASGI 2.4).
    return not disconnect.done()  # By older ASGI a send after that succeeds.


def _settle(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)


TICK_SECONDS: Final = 1.0
"""Beats that are due within so long come together: each wake of the event loop costs more than a beat."""


class Beats:
    """Calls functions of many waiting streams every so often, by one timer for all."""

    def __init__(self) -> None:
        self._due: dict[int, dict[object, tuple[float, Callable[[], None]]]] = {}
        """By tick: the functions to call then, each after its interval."""
        self._ticks: dict[object, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, interval: float, beat: Callable[[], None]) -> object:
        """Call *beat* about every *interval* seconds, until `end` is called with the returned ticket."""
        ticket = object()
        self._add(ticket, interval, beat)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        return ticket

    def end(self, ticket: object) -> None:
        """Call the function of *ticket* no more."""
        tick = self._ticks.pop(ticket)
        self._due.get(tick, {}).pop(ticket, None)

    def _add(self, ticket: object, interval: float, beat: Callable[[], None]) -> None:
        tick = max(int((time.monotonic() + interval) / TICK_SECONDS), self._now() + 1)
        self._ticks[ticket] = tick
        self._due.setdefault(tick, {})[ticket] = interval, beat

    def _tick(self) -> None:
        now = self._now()
        for tick in [each for each in self._due if each <= now]:
            for ticket, (interval, beat) in self._due.pop(tick).items():
                if ticket in self._ticks:
                    self._add(ticket, interval, beat)
                    beat()
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick) if self._due else None

    def _now(self) -> int:
        return int(time.monotonic() / TICK_SECONDS)


PIECES_AHEAD: Final = 2
TURN_PIECES: Final = 8
"""A worker thread makes so many pieces in a row, then others that wait for a thread get it."""


class RunInThread(Protocol):
    """Runs a function in a worker thread."""

    def __call__(self, function: Callable[[], Result], /) -> Awaitable[Result]:
        """Return an awaitable of the function's result."""


class Piece(NamedTuple):
    """Some bytes of an answer."""

    body: bytes
    kept: int
    """How many events the piece has."""
    more: bool
    """Whether another piece follows."""
    large: bytes = b""
    """More bytes, to be sent after the body: joining so many costs more than a second send."""

    @property
    def size(self) -> int:
        """The number of its bytes."""
        return len(self.body) + len(self.large)


class PiecesAhead:
    """Makes pieces in worker threads, never two at once, and returns them in order."""

    def __init__(self, run: RunInThread, make: Callable[[], Piece], usage: RequestUsage | None = None) -> None:
        """Begin to make the first piece; *usage* is that of the request."""
        self._run = run
        self._make = make
        self._usage = usage
        self._loop = asyncio.get_running_loop()
        self._room = Semaphore(PIECES_AHEAD)
        self._made: deque[Piece] = deque()
        self._told = asyncio.Event()
        self._more, self._stopped = True, False
        self._turn = self._begin_turn()

    async def next(self) -> Piece:
        """Return the next piece once it is made, or raise what *make* raised. Do not call it after the last piece."""
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
        """Make no further piece, and wait for the one that is being made."""
        self._stopped = True
        await asyncio.wait({self._turn})

    def _begin_turn(self) -> "asyncio.Future[None]":
        turn = asyncio.ensure_future(self._run(self._take_turn))
        turn.add_done_callback(self._end_turn)
        return turn

    def _end_turn(self, turn: "asyncio.Future[None]") -> None:
        if not turn.cancelled():
            turn.exception()  # Else asyncio logs it, if no further piece is asked for.
        self._told.set()

    def _take_turn(self) -> None:
        for _ in range(TURN_PIECES):
            if self._stopped or not self._room.acquire(blocking=False):
                return
            if self._made and self._usage is not None and not self._usage.has_room:
                self._room.release()
                return
            piece = self._make()
            self._more = piece.more
            self._loop.call_soon_threadsafe(self._hand_on, piece)
            if not piece.more:
                return

    def _hand_on(self, piece: Piece) -> None:
        if self._usage is not None:
            self._usage.hold_answer(piece.size)
        self._made.append(piece)
        self._told.set()


GATHER_BYTES: Final = PART_BYTES
"""Smaller parts are joined into one piece."""


class SizedBatch(Protocol):
    """A batch whose events can be counted."""

    @property
    def events(self) -> Any:
        """The events."""


Batch = TypeVar("Batch", bound=SizedBatch)


class PieceBuilder:
    """Joins the parts of one stream into pieces that are worth a send, never two at once."""

    def __init__(self, encoding: str | None, bytes_min: int = GATHER_BYTES) -> None:
        """Join parts until they have *bytes_min*, and compress each piece by *encoding*."""
        self._bytes_min = bytes_min
        self._encode = StreamEncoder(encoding) if encoding else None
        self._parts: Iterator[bytes] = iter(())
        self._failed: PenstockError | None = None
        self._event_count = 0

    def begin(self, parts: Iterator[bytes]) -> Piece:
        """Return the first piece of *parts*, which are taken as they are needed: see `next`."""
        self._parts = parts
        return self.next()

    def next(self) -> Piece:
        """Return the next piece.

        Raises:
            PenstockError: making a part failed. All parts before it have been returned.
        """
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        gathered, size, more, before = [], 0, False, self._event_count
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
        return Piece(body, self._event_count - before, more)

    def count_events(self, batches: "deque[Batch]") -> "Iterator[Batch]":
        """Yield *batches*, count their events, and keep none that has been yielded."""
        while batches:
            batch = batches.popleft()
            self._event_count += len(batch.events)
            yield batch

    def end(self) -> bytes:
        """Return the end of the compressed stream."""
        return self._encode.end() if self._encode else b""


async def send_ahead(
    piece: Piece,
    make: Callable[[], Piece],
    run: RunInThread,
    send: Callable[[Piece], Awaitable[bool]],
    count: Callable[[int], None],
) -> bool:
    """Send *piece* and the rest, which is made meanwhile; return False if *send* does, for a client that is gone.

    *count* gets the number of events of each piece that was sent.
    """
    usage = CURRENT_USAGE.get()
    ahead = PiecesAhead(run, make, usage) if piece.more else None
    if usage is not None:
        usage.hold_answer(piece.size)
    try:
        while True:
            if not await send(piece):
                return False
            if usage is not None:
                usage.release_answer(piece.size)
            count(piece.kept)
            if ahead is None or not piece.more:
                return True
            piece = await ahead.next()
    finally:
        if ahead:
            await ahead.stop()
