"""Sends a page while it is being read: bounded in memory, waiting without a thread, gone as soon as its reader is.

No more is read for nobody than what is being read.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from penstock.hub.hub import Hub
from penstock.hub.read import Reading
from penstock.server.ahead import Ahead, Piece, Run
from penstock.server.encoding import Encoder, encoder
from penstock.server.forms import Form
from penstock.server.settling import settle
from penstock.server.waiting import Leaving, leaving, something_new, unless

GATHER_BYTES: Final = 256 << 10
"""Pieces smaller than this are gathered, so that a small page costs one trip to a worker thread."""
SLICE_BYTES: Final = 128 << 10
"""Arrow's columns are sent by so much, which the processor still has in its cache when the server copies it once more:
measured, a twentieth faster than all at once. Lines are not, which are made in one piece: that was slower."""


class Page:
    """One page for one reader: an ASGI response."""

    def __init__(
        self,
        hub: Hub,
        run: Run,
        form: Form,
        event_type: str,
        reopen: Callable[[Mapping[int, str] | None], Reading],
        *,
        allowed: Callable[[], None],
        wait_s: float,
        encoding: str | None,
        headers: Callable[[Reading, bool], dict[str, str]],
        opened: Callable[[Reading], None] | None,
        served: Callable[[str, int], None],
    ) -> None:
        """Prepare to send what *reopen* opens: with None from the cursors asked for, else from those given.

        *allowed* is asked while the page waits, and raises once its reader may no longer read. *opened* is told, once
        and in a worker thread, from where the page is read. *headers* makes the page's own headers, told whether the
        page has been read to its end already; *served* is told the event type and how many of its events were read for
        what has been sent.
        """
        self._hub = hub
        self._run = run
        self._form = form
        self._event_type = event_type
        self._reopen = reopen
        self._allowed = allowed
        self._opened = opened
        self._wait_s = wait_s
        self._encoding = encoding
        self._headers = headers
        self._served = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the page, or as much of it as the client waits for; of HEAD its headers, without reading or waiting.

        Raises:
            PenstockError: before anything was sent, whatever opening and the first read raise.
        """
        if scope["method"] == "HEAD":
            await send(self._start(await self._look(), whole=False, encoding=None))
            await send({"type": "http.response.body", "body": b""})
            return
        left = leaving(receive)
        try:
            await self._answer(send, left)
        finally:
            left.cancel()

    async def _look(self) -> Reading:
        """Open the page as a GET would, and read nothing of it."""
        waits = await self._run(lambda: self._hub.waits_in_outbox(self._event_type))
        reading = await self._run(lambda: self._reopen(None))
        if waits and reading.reaches_head:
            await settle(self._hub, self._event_type)
            reading = await self._run(lambda: self._reopen(None))
        return reading

    async def _answer(self, send: Send, left: Leaving) -> None:
        deadline = time.monotonic() + self._wait_s
        begun = await self._begin(None, left)
        while begun and _is_empty(begun[1]) and (seconds := deadline - time.monotonic()) > 0:
            if not await self._something_new(begun[0].reading, seconds, left):
                break
            begun = await self._begin(begun[0].cursors, left)
        if begun is None or left.done():
            return
        pieces, first = begun
        await send(self._start(pieces.reading, whole=not first.more, encoding=self._encoding))
        await self._stream(pieces, first, send, left)

    async def _begin(self, cursors: Mapping[int, str] | None, left: Leaving) -> "tuple[Pieces, Piece] | None":
        """Open the page and read its first piece, once what was committed before is there; None: the client left."""
        pieces = Pieces(self._form, self._hub, encoder(self._encoding) if self._encoding else None)

        opened = self._opened if cursors is None else None

        def begin(*, waits: bool) -> Piece | None:
            reading = self._reopen(cursors)
            return None if waits and reading.reaches_head else pieces.begin(reading, opened)

        # Asked before the look at the log: what another hub moves between the two is in the log then.
        first = await self._run(lambda: begin(waits=self._hub.waits_in_outbox(self._event_type)))
        if first is None and await unless(left, settle(self._hub, self._event_type)):
            first = await self._run(lambda: begin(waits=False))
        return None if first is None else (pieces, first)

    async def _stream(self, pieces: "Pieces", piece: Piece, send: Send, left: Leaving) -> None:
        """Send *piece* and the rest, which is read meanwhile, until the page ends or the client is gone."""
        ahead = Ahead(self._run, pieces.next) if piece.more else None
        try:
            while await unless(left, _sent(piece, send)) and ahead and piece.more:
                piece = await ahead.next()
        finally:
            self._served(pieces.reading.feed.name, piece.kept)
            if ahead:
                await ahead.stop()

    async def _something_new(self, reading: Reading, seconds: float, left: Leaving) -> bool:
        return await something_new(self._hub.watch(), reading.waits_at, seconds, left, self._allowed)

    def _start(self, reading: Reading, *, whole: bool, encoding: str | None) -> dict[str, Any]:
        headers = {"content-type": self._form.media_type, "vary": "Accept, Accept-Encoding"}
        headers |= self._headers(reading, whole)
        if encoding:
            headers["content-encoding"] = encoding
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        return {"type": "http.response.start", "status": 200, "headers": raw}


class Pieces:
    """The bytes of one page, read piece by piece in worker threads."""

    def __init__(self, form: Form, hub: Hub, encode: Encoder | None) -> None:
        self._form = form
        self._hub = hub
        self._encode = encode
        self._rest: Iterator[bytes] = iter(())
        self.reading: Reading

    @property
    def cursors(self) -> dict[int, str]:
        """By partition of the reader's view: the cursor just after what has been read."""
        return {track.view.partition: track.cursor for track in self.reading.tracks}

    def begin(self, reading: Reading, opened: Callable[[Reading], None] | None) -> Piece:
        """Take up *reading*, tell *opened* from where it begins, and return its first piece."""
        self.reading = reading
        if opened is not None:
            opened(reading)
        self._rest = self._form.pieces(self._hub, reading)
        return self.next()

    def next(self) -> Piece:
        """Return the next piece."""
        gathered, size, more = [], 0, False
        for each in self._rest:
            gathered.append(each)
            size += len(each)
            if size >= GATHER_BYTES and not self._form.gathers(self.reading):
                more = True
                break
        kept = sum(track.kept for track in self.reading.tracks)
        if self._encode is not None:
            body = self._encode.compress(_joined(gathered)) + (b"" if more else self._encode.flush())
            return Piece(body, kept, more)
        large = gathered.pop() if more and len(gathered) > 1 and len(gathered[-1]) >= GATHER_BYTES else b""
        return Piece(_joined(gathered), kept, more, large)


def _is_empty(page: Piece) -> bool:
    """Tell whether that is all of the page, and it is nothing."""
    return not page.more and not page.kept


def _joined(parts: Sequence[bytes]) -> bytes:
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _sent(piece: Piece, send: Send) -> None:
    await send(_body(piece.body, more=piece.more))
    large = memoryview(piece.large)
    for at in range(0, len(large), SLICE_BYTES):
        await send(_body(bytes(large[at : at + SLICE_BYTES]), more=piece.more))


def _body(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}
