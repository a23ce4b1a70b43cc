"""Sends a page of a feed while it reads it, as lines of v1, lines of v2, or Arrow.

Invariants:
    A page needs bounded memory, however large it is and however slow its reader.
    A page that waits has no thread and no database connection.
    At most one chunk is read after the reader has disconnected.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from itertools import compress
from typing import Any, Final, Protocol

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from penstock.core.access import UNAUTHENTICATED
from penstock.core.events.event import derive_headers
from penstock.hub.activity import Activity
from penstock.hub.log.read import ChunkRows, ColumnChunk, PageReading, Reader, Track
from penstock.schema.json_text import decode
from penstock.server.auth import authorize, count_stream, event_type_named
from penstock.server.http.encoding import Encoder, choose_encoding, encoder
from penstock.server.http.streaming import (
    Disconnect,
    Piece,
    await_unless_disconnected,
    listen_for_disconnect,
    send_ahead,
    wait_for_events,
)
from penstock.server.state import state_of
from penstock.server.telemetry import access_of
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


class PageForm(Protocol):
    """Turns a page into bytes, chunk by chunk, in a worker thread."""

    media_type: str

    def pieces(self, reader: Reader, reading: PageReading) -> Iterator[bytes]:
        """Read the page to its end and return its bytes, each piece no larger than a chunk."""

    def gathers(self, reading: PageReading) -> bool:
        """Return whether the whole page has to be read before its headers are sent; it is short then."""


class LineForm:
    """NDJSON: the lines of ZeroEventHub v1 or FeedAPI v2."""

    media_type = zeroeventhub.NDJSON

    def __init__(self, *, version: int, headers: HeaderChoice | None) -> None:
        self._v1 = version == 1
        self._headers = headers

    def pieces(self, reader: Reader, reading: PageReading) -> Iterator[bytes]:
        """See `PageForm.pieces`. A filtered page has a cursor after each chunk."""
        for track in reading.tracks:
            if self._headers is not None or track.view.slices > 1:
                yield from self._read_by_column(reader, reading, track)
            else:
                yield from self._read_by_line(reader, reading, track)
            yield self._checkpoint(track)

    def gathers(self, reading: PageReading) -> bool:  # noqa: ARG002 - the cursors are lines too
        """See `PageForm.gathers`."""
        return False

    def _read_by_line(self, reader: Reader, reading: PageReading, track: Track) -> Iterator[bytes]:
        frame = Frame(*(zeroeventhub.line_frame(track.view.partition) if self._v1 else feedapi.LINE_FRAME))
        while chunk := reader.read_next_lines(reading, track, frame):
            if chunk.body:
                yield chunk.body
            if reading.is_filtered:
                yield self._checkpoint(track)

    def _read_by_column(self, reader: Reader, reading: PageReading, track: Track) -> Iterator[bytes]:
        while chunk := reader.read_next_columns(reading, track):
            lines = list(self._lines(reading, track, chunk))
            track.advance(chunk.range, len(lines))
            yield b"".join(lines)
            if reading.is_filtered:
                yield self._checkpoint(track)

    def _lines(self, reading: PageReading, track: Track, chunk: ColumnChunk) -> Iterator[bytes]:
        rows = ChunkRows(chunk)
        for key, kind, own, data in compress(rows.tuples(), rows.match(reading, track)):
            headers = (
                self._headers.of(combine_headers(reading.feed.name, key, kind, own, data)) if self._headers else {}
            )
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

    def pieces(self, reader: Reader, reading: PageReading) -> Iterator[bytes]:
        """See `PageForm.pieces`."""
        stream, size = arrow.ArrowStream(), 0
        for parts in self._encode_batches(reader, reading, stream):
            yield from parts
            size += sum(map(len, parts))
            if reading.is_filtered and size > FILTERED_BYTES:
                break
        yield from stream.end()

    def gathers(self, reading: PageReading) -> bool:
        """See `PageForm.gathers`: the rows of a filtered page do not show the cursor after it."""
        return reading.is_filtered

    def _encode_batches(
        self, reader: Reader, reading: PageReading, stream: "arrow.ArrowStream"
    ) -> "Iterator[list[arrow.ArrowPart]]":
        for track in reading.tracks:
            while chunk := reader.read_next_columns(reading, track):
                kept = ChunkRows(chunk).match(reading, track) if reading.is_filtered else None
                track.advance(chunk.range, chunk.columns.rows if kept is None else sum(kept))
                headers = self._join_headers(reading, chunk) if self._headers else chunk.columns.headers
                columns = chunk.columns._replace(headers=headers)
                yield stream.add(arrow.record_batch(track.view.partition, chunk.range.start, columns, NONE, kept))

    def _join_headers(self, reading: PageReading, chunk: ColumnChunk) -> bytes:
        assert self._headers is not None
        choice, name = self._headers, reading.feed.name
        found = (choice.of(combine_headers(name, *row)) for row in ChunkRows(chunk).tuples())
        return b"\n".join([msgspec.json.encode(headers) if headers else NONE for headers in found])


def combine_headers(
    event_type: str, key: bytes | None, kind: bytes | None, own: bytes | None, data: bytes
) -> dict[str, str]:
    """Return an event's headers: those derived from it, and its own, which win."""
    event: dict[str, Any] = decode(data)
    derived = derive_headers(
        event, event_type=event_type, kind=kind.decode() if kind else None, key=None if key is None else key.decode()
    )
    return derived | _decode_headers(own) if own else derived


GATHER_BYTES: Final = 512 << 10
"""Smaller parts are joined into one piece, so that a small page costs one trip to a worker thread."""
SLICE_BYTES: Final = 128 << 10
"""Columns of Arrow are sent in slices, which are still in the processor's cache when the server copies them: 5 % faster
than in one piece, as measured. Lines are sent in one piece, since slices were slower."""


class PageRequest(Protocol):
    """A page that a reader asks for, as one version of the contract has it.

    All but `headers` may ask the database, and are called in worker threads.
    """

    event_type: str
    form: PageForm
    wait_seconds: float
    """How long the page may wait for events; 0 if it is sent empty."""

    def open(self, cursors: Mapping[int, str] | None, *, settled: bool) -> PageReading:
        """Open the page as the log is now, at *cursors* by partition, or where the reader asks for if that is None.

        Raises:
            UnsettledError: the outbox is not *settled*, and the page needs that: see `Reader.open`.
        """

    def store_cursors(self, reading: PageReading) -> None:
        """Keep the cursors that the reader came with, if it asks for that; called once, before anything is read."""

    def headers(self, reading: PageReading, *, is_whole: bool) -> dict[str, str]:
        """Return the page's own headers; *is_whole* says that it has been read to its end."""


class PageResponse:
    """One page for one reader: an ASGI response."""

    def __init__(self, request: Request, wanted: PageRequest) -> None:
        """Prepare to answer *request* with the page that is *wanted*."""
        self._state = state_of(request)
        self._access = access_of(request)
        self._wanted = wanted
        self._form = wanted.form
        self._encoding = choose_encoding(request.headers.get("accept-encoding"))
        self._count_stream = partial(count_stream, request)
        self._authorize = partial(authorize, request, "read", event_type_named(wanted.event_type))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the page, or as much of it as the client waits for; of HEAD its headers, without reading or waiting.

        Raises:
            PenstockError: opening or reading failed before anything was sent.
        """
        if scope["method"] == "HEAD":
            await send(self._start(await self._look(), is_whole=False, encoding=None))
            await send({"type": "http.response.body", "body": b""})
            return
        disconnect = listen_for_disconnect(receive)
        try:
            with suppress(ClientDisconnect):
                await self._answer(send, disconnect)
        finally:
            disconnect.cancel()

    async def _look(self) -> PageReading:
        """Open the page as a GET would, and read nothing of it."""
        return await self._state.read_settled(lambda is_settled: self._wanted.open(None, settled=is_settled))

    async def _answer(self, send: Send, disconnect: Disconnect) -> None:
        deadline = time.monotonic() + self._wanted.wait_seconds
        pieces, first = await self._begin(None, disconnect)
        while _is_empty(first) and (seconds := deadline - time.monotonic()) > 0:
            self._count_stream()
            watch, offsets = self._state.hub.log.watch, pieces.reading.waits_at
            began = time.perf_counter()
            is_there = await wait_for_events(watch, offsets, seconds, disconnect, self._authorize)
            self._access.waited += time.perf_counter() - began
            if not is_there:
                break
            pieces, first = await self._begin(pieces.cursors, disconnect)
        if disconnect.done():
            return
        await send(self._start(pieces.reading, is_whole=not first.more, encoding=self._encoding))
        try:
            await send_ahead(
                first,
                partial(self._read_next, pieces),
                self._state.run,
                lambda piece: await_unless_disconnected(disconnect, _send_piece(piece, send)),
                partial(self._count, pieces.reading.feed.name),
            )
        finally:
            activity = self._state.activity
            if activity is not None and activity.is_on and self._access.events:
                self._record(activity, pieces)

    async def _begin(self, cursors: Mapping[int, str] | None, disconnect: Disconnect) -> "tuple[PagePieces, Piece]":
        """Open the page and read its first piece, with everything that was committed before.

        Raises:
            ClientDisconnect: the client left while the outbox was moved.
        """
        pieces = PagePieces(self._form, self._state.hub.log.reader, encoder(self._encoding) if self._encoding else None)

        def begin(is_settled: bool) -> Piece:
            reading = self._wanted.open(cursors, settled=is_settled)
            if cursors is None:
                self._wanted.store_cursors(reading)
            return pieces.begin(reading)

        return pieces, await self._state.read_settled(begin, disconnect)

    def _read_next(self, pieces: "PagePieces") -> Piece:
        self._authorize()  # A client that reads slowly may have lost its right meanwhile.
        return pieces.next()

    def _count(self, event_type: str, events: int) -> None:
        self._state.metrics.served.add(event_type, events)
        self._access.events += events

    def _record(self, activity: Activity, pieces: "PagePieces") -> None:
        caller = self._access.caller or UNAUTHENTICATED
        name, events = pieces.reading.feed.name, self._access.events
        activity.add_streamed("feed", name, caller, events=events, size=pieces.size, batches=1)

    def _start(self, reading: PageReading, *, is_whole: bool, encoding: str | None) -> dict[str, Any]:
        headers = {"content-type": self._form.media_type, "vary": "Accept, Accept-Encoding"}
        headers |= self._wanted.headers(reading, is_whole=is_whole)
        if encoding:
            headers["content-encoding"] = encoding
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        return {"type": "http.response.start", "status": 200, "headers": raw}


class PagePieces:
    """The bytes of one page, read piece by piece in worker threads."""

    def __init__(self, form: PageForm, reader: Reader, encode: Encoder | None) -> None:
        self._form = form
        self._reader = reader
        self._encode = encode
        self._rest: Iterator[bytes] = iter(())
        self._kept = 0
        self.reading: PageReading
        self.size = 0
        """The bytes of the pieces so far, before compression."""

    @property
    def cursors(self) -> dict[int, str]:
        """The cursor just after the events that were read, by partition of the reader's view."""
        return {track.view.partition: track.cursor for track in self.reading.tracks}

    def begin(self, reading: PageReading) -> Piece:
        """Begin to read *reading*, and return the first piece."""
        self.reading = reading
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
        self.size += size
        before, self._kept = self._kept, sum(track.kept for track in self.reading.tracks)
        kept = self._kept - before
        if self._encode is not None:
            body = self._encode.compress(_join(gathered)) + (b"" if more else self._encode.flush())
            return Piece(body, kept, more)
        large = gathered.pop() if more and len(gathered) > 1 and len(gathered[-1]) >= GATHER_BYTES else b""
        return Piece(_join(gathered), kept, more, large)


def _is_empty(page: Piece) -> bool:
    """Return whether *page* is a whole page without events."""
    return not page.more and not page.kept


def _join(parts: Sequence[bytes]) -> bytes:
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _send_piece(piece: Piece, send: Send) -> None:
    await send(_body(piece.body, more=piece.more))
    large = memoryview(piece.large)
    for at in range(0, len(large), SLICE_BYTES):
        await send(_body(bytes(large[at : at + SLICE_BYTES]), more=piece.more))


def _body(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}
