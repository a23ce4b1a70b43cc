"""Gathers what a stream sends into pieces that are worth sending; in worker threads."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Protocol, TypeVar

from penstock.errors import PenstockError
from penstock.server.ahead import Ahead, Piece, Run
from penstock.server.encoding import StreamEncoder
from penstock.wire.nakadi_stream import PART_BYTES

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
