"""The forms in which a page can be sent: lines of v1, lines of v2, Arrow.

Has the outbox moved before a read that would come to the head, without a thread that waits for it.

Sends a page while it is being read: bounded in memory, waiting without a thread, gone as soon as its reader is.

No more is read for nobody than what is being read.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import compress
from typing import Any, Final, Protocol

import msgspec
from starlette.types import Receive, Scope, Send

from penstock.core.events.event import derived_headers
from penstock.errors import OutcomeUnknown
from penstock.hub.hub import Hub
from penstock.hub.log.log import SETTLE_SECONDS_MAX, not_settled
from penstock.hub.log.read import ColumnChunk, Reader, Reading, Rows, Track
from penstock.schema.json_text import decode
from penstock.server.http.encoding import Encoder, encoder
from penstock.server.http.streaming import Ahead, Leaving, Piece, Run, leaving, something_new, unless
from penstock.storage.log.events import NONE, Frame
from penstock.wire.log import feedapi, zeroeventhub
from penstock.wire.query import HeaderChoice

if find_spec("pyarrow"):  # Loaded when the hub starts, so that the first page does not wait for it.
    from penstock.wire.log import arrow

HAS_ARROW: Final = find_spec("pyarrow") is not None
"""Whether this hub can send Arrow pages."""
FILTERED_BYTES: Final = 1 << 20
"""A filtered Arrow page ends after about so much: it is held whole, since its cursor stands in a header."""
_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode


class Form(Protocol):
    """Turns a page into bytes, chunk by chunk; run in a worker thread."""

    media_type: str

    def pieces(self, reader: Reader, reading: Reading) -> Iterator[bytes]:
        """Read the page to its end and return its bytes, each piece no larger than a chunk."""

    def gathers(self, reading: Reading) -> bool:
        """Tell whether the page has to be known to its end before its headers are sent; it is short then."""


class LineForm:
    """NDJSON: the lines of ZeroEventHub v1 or FeedAPI v2."""

    media_type = zeroeventhub.NDJSON

    def __init__(self, *, version: int, headers: HeaderChoice | None) -> None:
        self._v1 = version == 1
        self._headers = headers

    def pieces(self, reader: Reader, reading: Reading) -> Iterator[bytes]:
        """See `Form.pieces`. A filtered read tells its progress after each chunk."""
        for track in reading.tracks:
            if self._headers is not None or track.view.slices > 1:
                yield from self._by_column(reader, reading, track)
            else:
                yield from self._by_line(reader, reading, track)
            yield self._checkpoint(track)

    def gathers(self, reading: Reading) -> bool:  # noqa: ARG002 - lines tell their cursors themselves
        """See `Form.gathers`."""
        return False

    def _by_line(self, reader: Reader, reading: Reading, track: Track) -> Iterator[bytes]:
        frame = Frame(*(zeroeventhub.line_frame(track.view.partition) if self._v1 else feedapi.LINE_FRAME))
        while chunk := reader.next_lines(reading, track, frame):
            if chunk.body:
                yield chunk.body
            if reading.is_filtered:
                yield self._checkpoint(track)

    def _by_column(self, reader: Reader, reading: Reading, track: Track) -> Iterator[bytes]:
        while chunk := reader.next_columns(reading, track):
            lines = list(self._lines(reading, track, chunk))
            track.advance(chunk.range, len(lines))
            yield b"".join(lines)
            if reading.is_filtered:
                yield self._checkpoint(track)

    def _lines(self, reading: Reading, track: Track, chunk: ColumnChunk) -> Iterator[bytes]:
        rows = Rows(chunk)
        for key, kind, own, data in compress(rows.tuples(), rows.kept(reading, track)):
            headers = self._headers.of(all_headers(reading.feed.name, key, kind, own, data)) if self._headers else {}
            if self._v1:
                yield zeroeventhub.event_line(track.view.partition, headers, data)
            else:
                yield feedapi.event_line(headers, data)

    def _checkpoint(self, track: Track) -> bytes:
        if self._v1:
            return zeroeventhub.checkpoint_line(track.view.partition, track.cursor)
        return feedapi.checkpoint_line(track.cursor)


class ArrowForm:
    """An Arrow IPC stream: a batch for every chunk. Needs PyArrow, see `HAS_ARROW`."""

    media_type = feedapi.ARROW

    def __init__(self, headers: HeaderChoice | None) -> None:
        self._headers = headers

    def pieces(self, reader: Reader, reading: Reading) -> Iterator[bytes]:
        """See `Form.pieces`."""
        stream, size = arrow.ArrowStream(), 0
        for parts in self._batches(reader, reading, stream):
            yield from parts
            size += sum(map(len, parts))
            if reading.is_filtered and size > FILTERED_BYTES:
                break
        yield from stream.end()

    def gathers(self, reading: Reading) -> bool:
        """See `Form.gathers`: where events are left out, the cursor after the page cannot be told from its rows."""
        return reading.is_filtered

    def _batches(self, reader: Reader, reading: Reading, stream: "arrow.ArrowStream") -> "Iterator[list[arrow.Part]]":
        for track in reading.tracks:
            while chunk := reader.next_columns(reading, track):
                kept = Rows(chunk).kept(reading, track) if reading.is_filtered else None
                track.advance(chunk.range, chunk.columns.rows if kept is None else sum(kept))
                headers = self._joined_headers(reading, chunk) if self._headers else chunk.columns.headers
                columns = chunk.columns._replace(headers=headers)
                yield stream.add(arrow.record_batch(track.view.partition, chunk.range.start, columns, NONE, kept))

    def _joined_headers(self, reading: Reading, chunk: ColumnChunk) -> bytes:
        assert self._headers is not None
        choice, name = self._headers, reading.feed.name
        found = (choice.of(all_headers(name, *row)) for row in Rows(chunk).tuples())
        return b"\n".join([msgspec.json.encode(headers) if headers else NONE for headers in found])


def all_headers(
    event_type: str, key: bytes | None, kind: bytes | None, own: bytes | None, data: bytes
) -> dict[str, str]:
    """Return an event's headers: those derived from it, and its own, which win."""
    event: dict[str, Any] = decode(data)
    derived = derived_headers(
        event, event_type=event_type, kind=kind.decode() if kind else None, key=None if key is None else key.decode()
    )
    return derived | _decode_headers(own) if own else derived


OVERVIEW_SECONDS_MAX: Final = 1.0
"""What shows many event types at once waits no longer: one with a backlog is not to hide the others."""


async def settle(hub: Hub, name: str) -> None:
    """Wait until what services have committed to the outbox of *name* is in the log.

    Raises:
        HubUnavailable, DatabaseUnavailable: it could not be moved now.
    """
    try:
        await asyncio.wait_for(asyncio.wrap_future(hub.log.move(name)), SETTLE_SECONDS_MAX)
    except (TimeoutError, OutcomeUnknown) as error:
        raise not_settled(name, error) from error


async def settle_some(hub: Hub, names: Sequence[str]) -> None:
    """Have the outboxes of *names* moved, together, as far as that can be done before an overview has to be shown."""
    moves = [asyncio.wrap_future(hub.log.move(name)) for name in names]
    if moves:
        done, late = await asyncio.wait(moves, timeout=OVERVIEW_SECONDS_MAX)
        for each in late:
            each.cancel()
        await asyncio.gather(*done, *late, return_exceptions=True)


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
        wait_seconds: float,
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
        self._wait_seconds = wait_seconds
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
        waits = await self._run(lambda: self._hub.log.has_waiting(self._event_type))
        reading = await self._run(lambda: self._reopen(None))
        if waits and reading.reaches_head:
            await settle(self._hub, self._event_type)
            reading = await self._run(lambda: self._reopen(None))
        return reading

    async def _answer(self, send: Send, left: Leaving) -> None:
        deadline = time.monotonic() + self._wait_seconds
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
        pieces = Pieces(self._form, self._hub.log.reader, encoder(self._encoding) if self._encoding else None)

        opened = self._opened if cursors is None else None

        def begin(*, waits: bool) -> Piece | None:
            reading = self._reopen(cursors)
            return None if waits and reading.reaches_head else pieces.begin(reading, opened)

        # Asked before the look at the log: what another hub moves between the two is in the log then.
        first = await self._run(lambda: begin(waits=self._hub.log.has_waiting(self._event_type)))
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
        return await something_new(self._hub.log.watch, reading.waits_at, seconds, left, self._allowed)

    def _start(self, reading: Reading, *, whole: bool, encoding: str | None) -> dict[str, Any]:
        headers = {"content-type": self._form.media_type, "vary": "Accept, Accept-Encoding"}
        headers |= self._headers(reading, whole)
        if encoding:
            headers["content-encoding"] = encoding
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        return {"type": "http.response.start", "status": 200, "headers": raw}


class Pieces:
    """The bytes of one page, read piece by piece in worker threads."""

    def __init__(self, form: Form, reader: Reader, encode: Encoder | None) -> None:
        self._form = form
        self._reader = reader
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
        self._rest = self._form.pieces(self._reader, reading)
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
