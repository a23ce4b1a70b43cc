"""The routes that read feeds: ZeroEventHub v1 and FeedAPI v2 on one URL.

A page is sent while it is read: as lines of either version, as CloudEvents, or as Arrow.

Invariants:
    A page needs bounded memory, however large it is and however slow its reader.
    A page that waits has no thread and no database connection.
    At most one chunk is read after the reader has disconnected.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from itertools import compress
from typing import Any, Final, Protocol

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.core.access import UNAUTHENTICATED, Claim
from penstock.core.events.event import derive_headers
from penstock.core.log.cursor import add_partition_count, partition_count_error
from penstock.core.log.details import EventDetails
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import (
    AccessDenied,
    BadCursor,
    BadParameter,
    BadPartitionCount,
    Blocked,
    CursorExpired,
    PartitionNotFound,
    PenstockError,
    StaleSplit,
    StaleToken,
    Unauthenticated,
    UnsupportedFormat,
)
from penstock.hub.activity import Activity
from penstock.hub.hub import Hub
from penstock.hub.log.read import (
    ChunkRows,
    ColumnChunk,
    PageReading,
    Reader,
    Track,
    WantedPartition,
    find_details,
    make_changing_error,
)
from penstock.schema.json_text import decode
from penstock.server.auth import authorize, claim_of, count_stream, event_type_named, uses_replicas
from penstock.server.http.encoding import Encoder, choose_encoding, choose_form, encoder, prefers
from penstock.server.http.responses import json_response
from penstock.server.http.streaming import (
    STALL_TIMEOUT,
    TAKES_NOTHING,
    Disconnect,
    Piece,
    await_while_wanted,
    listen_for_disconnect,
    send_ahead,
    wait_for_events,
)
from penstock.server.limits import CURRENT_USAGE, LARGE_BYTES
from penstock.server.log.caching import NO_STORE, VARY, cache_headers, find_fresh_seconds, is_listed, make_tag
from penstock.server.log.server_sent_events import EventSourceResponse
from penstock.server.state import State, event_type_of, state_of
from penstock.server.telemetry import access_of
from penstock.storage.log.events import NONE, Frame, KindFilter
from penstock.wire.log import cloudevents, feedapi, zeroeventhub
from penstock.wire.log.server_sent_events import EVENT_STREAM, LAST_EVENT_ID, parse_v1, parse_v2
from penstock.wire.query import HeaderChoice, Query

if find_spec("pyarrow"):  # Loaded when the hub starts, so that the first page does not wait for it.
    import pyarrow as pa

    from penstock.core.log.arrow import record_batch, repeat_batch
    from penstock.wire.log.arrow import ArrowPart, ArrowStream


HAS_ARROW: Final = find_spec("pyarrow") is not None
"""Whether this hub can send Arrow pages."""
FILTERED_BYTES: Final = 1 << 20
"""A filtered Arrow page ends after about so much: it is held whole, since its cursor stands in a header."""
GATHER_BYTES: Final = 512 << 10
"""Smaller parts are joined into one piece, so that a small page costs one trip to a worker thread."""
SLICE_BYTES: Final = 128 << 10
"""Columns of Arrow are sent in slices, which are still in the processor's cache when the server copies them: 5 % faster
than in one piece, as measured. Lines are sent in one piece, since slices were slower."""
_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode


async def discover_feed(request: Request) -> Response:
    """GET /feeds/{event_type}: discover a feed's partitions (FeedAPI v2)."""
    state, name = state_of(request), event_type_of(request)
    feed = await state.run(lambda: state.hub.registry.load(name))
    answer = json_response(feedapi.discovery(feed.epoch, feed.partition_count, feed.event_type.is_exactly_once))
    answer.headers.update(NO_STORE)
    return answer


async def read_feed(request: Request) -> "PageResponse | EventSourceResponse":
    """GET /feeds/{event_type}: discover a feed (FeedAPI v2, without arguments), or read it (ZeroEventHub v1)."""
    access, state, name = access_of(request), state_of(request), event_type_of(request)
    query = Query(request.scope["query_string"])
    if prefers(request, EVENT_STREAM, *_offered()):
        return await _stream_feed(request, name, query)
    try:
        asked = zeroeventhub.parse_read(query)
    except (BadParameter, BadPartitionCount) as error:
        raise await _name_partitions(state, name, query, error) from None
    access.consumer, access.n = asked.cursorset or "-", asked.n
    access.partitions = ",".join(map(str, sorted({*asked.cursors, *(asked.resume or ())})))
    cursors = dict(asked.cursors)
    claim = claim_of(request, overrides=False)
    if asked.resume:
        assert asked.cursorset is not None
        cursorset, resume = asked.cursorset, asked.resume
        cursors = await state.run(lambda: state.hub.groups.resume(name, cursorset, asked.n, resume, claim))
    form = _choose_form(request, asked, version=1)
    return PageResponse(request, ZeroEventHubPage(state.hub, name, form, asked, cursors, claim=claim))


async def _stream_feed(request: Request, name: str, query: Query) -> EventSourceResponse:
    access, state = access_of(request), state_of(request)
    try:
        asked, options = parse_v1(query, request.headers.get(LAST_EVENT_ID))
    except (BadParameter, BadPartitionCount) as error:
        raise await _name_partitions(state, name, query, error) from None
    access.n, access.partitions = asked.n, ",".join(map(str, sorted(asked.cursors)))
    form = LineForm(version=1, headers=None)
    page = ZeroEventHubPage(state.hub, name, form, asked, asked.cursors, claim=None)
    return EventSourceResponse(request, page, options)


class PageRequest(Protocol):
    """A page that a reader asks for, as one version of the contract has it.

    All but `headers` may ask the database, and are called in worker threads.
    """

    event_type: str
    form: "PageForm"
    wait_seconds: float
    """How long the page may wait for events; 0 if it is sent empty."""

    @property
    def fresh_seconds(self) -> float:
        """How long caches may keep the page at most: see `find_fresh_seconds`."""

    def open(self, cursors: Mapping[int, str] | None, *, settled: bool) -> PageReading:
        """Open the page as the log is now, at *cursors* by partition, or where the reader asks for if that is None.

        Raises:
            UnsettledError: the outbox is not *settled*, and the page needs that: see `Reader.open`.
        """

    def store_cursors(self, reading: PageReading) -> None:
        """Keep the cursors that the reader came with, if it asks for that; called once, before anything is read."""

    def headers(self, reading: PageReading, *, is_whole: bool) -> dict[str, str]:
        """Return the page's own headers; *is_whole* says that it has been read to its end."""


class ZeroEventHubPage:
    """A page by ZeroEventHub v1: some partitions, each from its cursor; see `PageRequest`."""

    def __init__(
        self,
        hub: Hub,
        event_type: str,
        form: "PageForm",
        asked: zeroeventhub.ZeroEventHubRead,
        cursors: Mapping[int, str],
        *,
        claim: Claim | None,
    ) -> None:
        """Ask for events after *cursors*, by partition; the cursor set is that of the caller of *claim*."""
        self.event_type = event_type
        self.form = form
        self.wait_seconds = asked.wait_seconds if asked.page_size and not asked.until else 0.0
        self._hub = hub
        self._asked = asked
        self._cursors = cursors
        self._claim = claim
        self._kinds = _kind_filter(event_type, asked.kinds)
        self.id_parameter: str | None = None
        """The name of the cursors in errors; None: `cursor0` and so on."""

    @property
    def fresh_seconds(self) -> float:
        """See `PageRequest.fresh_seconds`."""
        asked = self._asked
        waits = self.wait_seconds > 0 or asked.cursorset is not None
        return find_fresh_seconds(self._cursors.values(), asked.until.values(), waits=waits)

    @property
    def shape(self) -> object:
        """All that a page depends on besides its cursors."""
        return 1, self.event_type, self._asked.n, self._kinds

    def open(self, cursors: Mapping[int, str] | None, *, settled: bool) -> PageReading:
        """See `PageRequest.open`."""
        asked = self._asked
        wanted = [
            WantedPartition(self.id_parameter or f"cursor{v}", v, text, asked.until.get(v), f"until{v}")
            for v, text in sorted((cursors or self._cursors).items())
        ]
        return self._hub.log.reader.open(
            self.event_type, asked.n, wanted, asked.page_size, self._kinds, settled=settled
        )

    def store_cursors(self, reading: PageReading) -> None:
        """See `PageRequest.store_cursors`: a reader that names a cursor set has processed all before its cursors."""
        if self._asked.cursorset and self._asked.cursors:
            places = [(track.view, dict(track.offsets)) for track in reading.tracks]
            self._hub.groups.store_cursors(reading.feed, self._asked.cursorset, places, self._claim)

    def headers(self, reading: PageReading, *, is_whole: bool) -> dict[str, str]:
        """See `PageRequest.headers`."""
        found = {}
        if self.form.has_cursor_header and (is_whole or not reading.is_filtered):
            after = ((track.view.partition, track.cursor_after(whole=is_whole)) for track in reading.tracks)
            found[feedapi.CURSOR_HEADER] = "&".join(f"cursor{partition}={cursor}" for partition, cursor in after)
            if reading.is_filtered:
                left_out = ((track.view.partition, track.scanned - track.kept) for track in reading.tracks)
                found[feedapi.LEFT_OUT_HEADER] = "&".join(f"partition{number}={count}" for number, count in left_out)
        return found


async def _name_partitions(
    state: State, name: str, query: Query, error: BadParameter | BadPartitionCount
) -> PenstockError:
    """Return *error*, with the feed's number of partitions if it concerns n."""
    parameter = error.fields.get("parameter", "n")
    if parameter != "n" and "n" not in error.fields:
        return error
    feed = await state.run(lambda: state.hub.registry.load(name))
    if isinstance(error, BadParameter) and (parameter != "n" or len(query.find_texts("n")) > 1):
        return add_partition_count(error, feed.partition_count)
    return partition_count_error(error.fields.get("n", error.fields.get("value")), feed.partition_count)


async def read_partition(request: Request) -> "PageResponse | EventSourceResponse":
    """GET /feeds/{event_type}/events: read a partition (FeedAPI v2)."""
    query = Query(request.scope["query_string"])
    if prefers(request, EVENT_STREAM, *_offered()):
        asked, options = parse_v2(query, request.headers.get(LAST_EVENT_ID))
        access_of(request).partitions = str(asked.partition)
        page = FeedApiPage(request, LineForm(version=2, headers=None), asked)
        return EventSourceResponse(request, page, options)
    asked = feedapi.parse_read(query)
    access_of(request).partitions = str(asked.partition)
    form = _choose_form(request, asked, version=2)
    return PageResponse(request, FeedApiPage(request, form, asked))


class FeedApiPage:
    """A page by FeedAPI v2: one partition, from a cursor; see `PageRequest`."""

    def __init__(self, request: Request, form: "PageForm", asked: feedapi.FeedApiRead) -> None:
        self.event_type = event_type_of(request)
        self.form = form
        self.wait_seconds = asked.wait_seconds if asked.page_size and not asked.until else 0.0
        self._hub = state_of(request).hub
        self._access = access_of(request)
        self._asked = asked
        self._kinds = _kind_filter(self.event_type, asked.kinds)
        self.id_parameter: str | None = None
        """The name of the cursor in errors; None: `cursor`."""

    @property
    def fresh_seconds(self) -> float:
        """See `PageRequest.fresh_seconds`."""
        until = [] if self._asked.until is None else [self._asked.until]
        return find_fresh_seconds([self._asked.cursor], until, waits=self.wait_seconds > 0)

    @property
    def shape(self) -> object:
        """All that a page depends on besides its cursor."""
        return 2, self.event_type, self._asked.token, self._kinds

    def open(self, cursors: Mapping[int, str] | None, *, settled: bool) -> PageReading:
        """See `PageRequest.open`."""
        asked, name = self._asked, self.event_type
        self._check_token()
        cursor = cursors[asked.partition] if cursors else asked.cursor
        wanted = [WantedPartition(self.id_parameter or "cursor", asked.partition, cursor, asked.until)]
        try:
            reading = self._hub.log.reader.open(name, None, wanted, asked.page_size, self._kinds, settled=settled)
        except (BadCursor, CursorExpired, StaleSplit, PartitionNotFound):
            self._check_token_of(self._hub.registry.load(name))  # By the feed that the cursor was judged by.
            raise
        self._check_token_of(reading.feed)
        return reading

    def _check_token(self) -> None:
        """Check the token before the cursor is judged; the remembered event type refuses nothing."""
        registry = self._hub.registry
        try:
            self._check_token_of(registry.recall(self.event_type))
        except StaleToken:
            self._check_token_of(registry.load(self.event_type))

    def _check_token_of(self, feed: StoredFeed) -> None:
        self._access.n = feed.partition_count
        feedapi.check_token(self._asked.token, feed.epoch, feed.partition_count)

    def store_cursors(self, reading: PageReading) -> None:
        """See `PageRequest.store_cursors`: this reader keeps its cursor itself."""

    def headers(self, reading: PageReading, *, is_whole: bool) -> dict[str, str]:
        """See `PageRequest.headers`."""
        if not self.form.has_cursor_header or (reading.is_filtered and not is_whole):
            return {}
        [track] = reading.tracks
        found = {feedapi.CURSOR_HEADER: track.cursor_after(whole=is_whole)}
        return found | {feedapi.LEFT_OUT_HEADER: str(track.scanned - track.kept)} if reading.is_filtered else found


def _choose_form(
    request: Request, asked: zeroeventhub.ZeroEventHubRead | feedapi.FeedApiRead, *, version: int
) -> "PageForm":
    try:
        chosen = choose_form(request, *_offered(), EVENT_STREAM)
    except UnsupportedFormat as error:
        if not HAS_ARROW and _takes(request, feedapi.ARROW):
            raise UnsupportedFormat.of("arrow-not-installed", **error.fields) from None
        raise
    if chosen == feedapi.ARROW:
        return ArrowForm(asked.headers)
    if chosen == cloudevents.BATCHED:
        return CloudEventForm()
    return LineForm(version=version, headers=asked.headers, has_details=asked.has_details)


def _offered() -> Sequence[str]:
    """Return the media types of pages."""
    return [zeroeventhub.NDJSON, *([feedapi.ARROW] if HAS_ARROW else []), cloudevents.BATCHED]


def _takes(request: Request, media_type: str) -> bool:
    try:
        choose_form(request, media_type)
    except UnsupportedFormat:
        return False
    return True


def _kind_filter(name: str, asked: tuple[frozenset[str], bool] | None) -> KindFilter | None:
    return KindFilter(*asked, default=name) if asked else None


class PageResponse:
    """One page for one reader: an ASGI response."""

    def __init__(self, request: Request, wanted: PageRequest) -> None:
        """Prepare to answer *request* with the page that is *wanted*."""
        self._state = state_of(request)
        self._access = access_of(request)
        self._wanted = wanted
        self._form = wanted.form
        self._encoding = choose_encoding(request.headers.get("accept-encoding"))
        self._known_tags = request.headers.getlist("if-none-match")
        self._tag: str | None = None
        self._is_known = False
        """Whether the client has the page that was opened."""
        self._count_stream = partial(count_stream, request)
        self._uses_replicas = partial(uses_replicas, request.scope)
        self._authorize = partial(authorize, request, "read", event_type_named(wanted.event_type))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the page, or as much of it as the client waits for; of HEAD its headers, without reading or waiting.

        Raises:
            PenstockError: opening or reading failed before anything was sent.
        """
        if scope["method"] == "HEAD":
            reading = await self._look()
            if self._is_known:
                await self._send_known(send, reading)
                return
            await send(self._start(reading, is_whole=False, encoding=None))
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
        return await self._state.read_settled(lambda is_settled: self._open(None, is_settled=is_settled))

    def _open(self, cursors: Mapping[int, str] | None, *, is_settled: bool) -> PageReading:
        """Open the page, and find its tag if caches may keep it; nothing has been read yet."""
        reading = self._wanted.open(cursors, settled=is_settled)._replace(uses_replicas=self._uses_replicas())
        keeps = reading.is_even and self._state.cache_ttl_seconds >= 1 and self._wanted.fresh_seconds > 0
        tag = self._tag = make_tag(reading, self._form.media_type, self._encoding) if keeps else None
        self._is_known = tag is not None and is_listed(tag, self._known_tags) and reading.is_constant(is_whole=False)
        return reading

    async def _send_known(self, send: Send, reading: PageReading) -> None:
        """Answer that the client has the page already."""
        headers = _encode_headers(self._cache_headers(reading))
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def _answer(self, send: Send, disconnect: Disconnect) -> None:
        deadline = time.monotonic() + self._wanted.wait_seconds
        pieces, first = await self._begin(None, disconnect)
        if self._is_known:
            await self._send_known(send, pieces.reading)
            return
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
        usage = CURRENT_USAGE.get()
        if usage is not None and first.size >= LARGE_BYTES:
            usage.check_room(first.size)
        await send(self._start(pieces.reading, is_whole=not first.more, encoding=self._encoding))
        try:
            await send_ahead(
                first,
                partial(self._read_next, pieces),
                self._state.run,
                lambda piece: await_while_wanted(disconnect, _send_piece(piece, send), self._make_wanted()),
                partial(self._count, pieces.reading.feed.name),
            )
        except (AccessDenied, Blocked, Unauthenticated) as error:
            self._access.refuse(error)
            self._access.cut(error.code)  # The connection ends: too late for another answer.
        finally:
            activity = self._state.activity
            if activity is not None and activity.is_on and self._access.events:
                self._record(activity, pieces)

    async def _begin(self, cursors: Mapping[int, str] | None, disconnect: Disconnect) -> "tuple[PagePieces, Piece]":
        """Open the page and read its first piece, with everything that was committed before; nothing if it is known.

        Raises:
            ClientDisconnect: the client left while the outbox was moved.
        """
        pieces = PagePieces(self._form, self._state.hub.log.reader, encoder(self._encoding) if self._encoding else None)

        def begin(is_settled: bool) -> Piece:
            reading = self._open(cursors, is_settled=is_settled)
            if cursors is None:
                self._wanted.store_cursors(reading)
            if self._is_known:
                pieces.reading = reading
                return Piece(b"", 0, more=False)
            return pieces.begin(reading)

        return pieces, await self._state.read_settled(begin, disconnect)

    def _read_next(self, pieces: "PagePieces") -> Piece:
        self._authorize()  # A client that reads slowly may have lost its right meanwhile.
        return pieces.next()

    def _make_wanted(self) -> Callable[[], Awaitable[bool]]:
        """Return a function that says whether the piece that is sent from now on is still wanted."""
        until = time.monotonic() + STALL_TIMEOUT

        async def is_wanted() -> bool:
            self._authorize()  # A client that takes nothing would otherwise keep its answer for as long as it likes.
            if time.monotonic() < until:
                return True
            self._access.cut(TAKES_NOTHING)
            return False

        return is_wanted

    def _count(self, event_type: str, events: int) -> None:
        self._state.metrics.served.add(event_type, events)
        self._access.events += events

    def _record(self, activity: Activity, pieces: "PagePieces") -> None:
        caller = self._access.caller or UNAUTHENTICATED
        name, events = pieces.reading.feed.name, self._access.events
        activity.add_streamed("feed", name, caller, events=events, size=pieces.size, batches=1)

    def _start(self, reading: PageReading, *, is_whole: bool, encoding: str | None) -> dict[str, Any]:
        headers = {"content-type": self._form.media_type, "vary": VARY}
        headers |= self._wanted.headers(reading, is_whole=is_whole)
        headers |= self._cache_headers(reading) if reading.is_constant(is_whole=is_whole) else NO_STORE
        if encoding:
            headers["content-encoding"] = encoding
        return {"type": "http.response.start", "status": 200, "headers": _encode_headers(headers)}

    def _cache_headers(self, reading: PageReading) -> Mapping[str, str]:
        """Return the headers of a constant page, as far as caches may keep it."""
        if self._tag is None:
            return NO_STORE
        is_public = self._state.hub.admin.permissions.is_public(reading.feed.event_type)
        return cache_headers(self._tag, self._state.cache_ttl_seconds, self._wanted.fresh_seconds, is_public=is_public)


def _encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


class PagePieces:
    """The bytes of one page, read piece by piece in worker threads."""

    def __init__(self, form: "PageForm", reader: Reader, encode: Encoder | None) -> None:
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


async def _send_piece(piece: Piece, send: Send) -> bool:
    await send(_body(piece.body, more=piece.more))
    large = memoryview(piece.large)
    for at in range(0, len(large), SLICE_BYTES):
        await send(_body(bytes(large[at : at + SLICE_BYTES]), more=piece.more))
    return True


def _body(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


class PageForm(Protocol):
    """Turns a page into bytes, chunk by chunk, in a worker thread."""

    media_type: str
    has_cursor_header: bool
    """True if a header has the cursor after the page, since its body has none."""

    def pieces(self, reader: Reader, reading: PageReading) -> Iterator[bytes]:
        """Read the page to its end and return its bytes, each piece no larger than a chunk."""

    def gathers(self, reading: PageReading) -> bool:
        """Return whether the whole page has to be read before its headers are sent; it is short then."""


class LineForm:
    """NDJSON: the lines of ZeroEventHub v1 or FeedAPI v2."""

    media_type = zeroeventhub.NDJSON
    has_cursor_header = False

    def __init__(self, *, version: int, headers: HeaderChoice | None, has_details: bool = False) -> None:
        self._v1 = version == 1
        self._headers = headers
        self._has_details = has_details

    def pieces(self, reader: Reader, reading: PageReading) -> Iterator[bytes]:
        """See `PageForm.pieces`. A filtered page has a cursor after each chunk."""
        for track in reading.tracks:
            if self._headers is not None or self._has_details or track.view.slices > 1:
                yield from self._read_by_column(reader, reading, track)
            else:
                yield from self._read_by_line(reader, reading, track)
            yield self._checkpoint(track)

    def gathers(self, reading: PageReading) -> bool:  # noqa: ARG002 - the cursors are lines too
        """See `PageForm.gathers`."""
        return False

    def _read_by_line(self, reader: Reader, reading: PageReading, track: Track) -> Iterator[bytes]:
        while chunk := reader.read_next_lines(reading, track, self._frame(track)):
            if chunk.body:
                yield chunk.body
            if reading.is_filtered:
                yield self._checkpoint(track)

    def _read_by_column(self, reader: Reader, reading: PageReading, track: Track) -> Iterator[bytes]:
        prefix, separator, suffix = (text.encode() for text in self._frame(track))
        while chunk := reader.read_next_joined_columns(reading, track, separator.decode()):
            rows = ChunkRows(chunk)
            kept = rows.match(reading, track) if reading.is_sifted else None
            count = chunk.rows if kept is None else sum(kept)
            track.advance(chunk.range, count, is_filtered=reading.is_filtered)
            if count:
                if self._has_details:
                    yield self._details(track, find_details(chunk, reading.feed.name, kept))
                if self._headers is not None:
                    tuples = rows.tuples() if kept is None else compress(rows.tuples(), kept)
                    yield b"".join(self._lines(self._headers, reading.feed.name, track, tuples))
                else:
                    yield prefix
                    yield chunk.columns.data if kept is None else separator.join(compress(rows.data, kept))
                    yield suffix
            if reading.is_filtered:
                yield self._checkpoint(track)

    def _lines(
        self,
        choice: HeaderChoice,
        event_type: str,
        track: Track,
        rows: Iterable[tuple[bytes | None, bytes | None, bytes | None, bytes]],
    ) -> Iterator[bytes]:
        for key, kind, own, data in rows:
            headers = choice.of(combine_headers(event_type, key, kind, own, data))
            if self._v1:
                yield zeroeventhub.event_line(track.view.partition, headers, data)
            else:
                yield feedapi.event_line(headers, data)

    def _frame(self, track: Track) -> Frame:
        return Frame(*(zeroeventhub.line_frame(track.view.partition) if self._v1 else feedapi.LINE_FRAME))

    def _details(self, track: Track, details: EventDetails) -> bytes:
        if self._v1:
            return zeroeventhub.details_line(track.view.partition, details)
        return feedapi.details_line(details)

    def _checkpoint(self, track: Track) -> bytes:
        if self._v1:
            return zeroeventhub.checkpoint_line(track.view.partition, track.cursor)
        return feedapi.checkpoint_line(track.cursor)


class ArrowForm:
    """An Arrow IPC stream: a batch for every chunk. Needs PyArrow, see `HAS_ARROW`."""

    media_type = feedapi.ARROW
    has_cursor_header = True

    def __init__(self, headers: HeaderChoice | None) -> None:
        self._headers = headers

    def pieces(self, reader: Reader, reading: PageReading) -> Iterator[bytes]:
        """See `PageForm.pieces`."""
        stream, size = ArrowStream(), 0
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
        self, reader: Reader, reading: PageReading, stream: "ArrowStream"
    ) -> "Iterator[list[ArrowPart]]":
        for track, chunk, kept in _read_columns(reader, reading):
            yield stream.add(self._make_batch(reading, track, chunk, kept))

    def _make_batch(
        self, reading: PageReading, track: Track, chunk: ColumnChunk, kept: list[bool] | None
    ) -> "pa.RecordBatch":
        if chunk.batch is not None and kept is None and not self._headers:
            return repeat_batch(track.view.partition, chunk.batch, NONE)
        columns = chunk.columns
        if self._headers:
            columns = columns._replace(headers=self._join_headers(reading, chunk))
        return record_batch(track.view.partition, chunk.offsets, columns, NONE, kept)

    def _join_headers(self, reading: PageReading, chunk: ColumnChunk) -> bytes:
        assert self._headers is not None
        choice, name = self._headers, reading.feed.name
        found = (choice.of(combine_headers(name, *row)) for row in ChunkRows(chunk).tuples())
        return b"\n".join([msgspec.json.encode(headers) if headers else NONE for headers in found])


class CloudEventForm:
    """A JSON array of CloudEvents: one event a line, with all of its attributes."""

    media_type = cloudevents.BATCHED
    has_cursor_header = True

    def pieces(self, reader: Reader, reading: PageReading) -> Iterator[bytes]:
        """See `PageForm.pieces`."""
        writer = cloudevents.CloudEventWriter(reading.feed.name, reading.feed.epoch)
        before, size = b"[\n", 0
        for _, chunk, kept in _read_columns(reader, reading):
            rows = ChunkRows(chunk)
            events: Iterable[tuple[Any, int, float]] = zip(rows.tuples(), chunk.offsets, rows.received, strict=True)
            written = [
                writer.write(row, partition=chunk.range.physical, offset=offset, received_at=round(received * 1e6))
                for row, offset, received in (events if kept is None else compress(events, kept))
            ]
            if written:
                body = before + b",\n".join(written)
                before, size = b",\n", size + len(body)
                yield body
            if reading.is_filtered and size > FILTERED_BYTES:
                break
        yield b"\n]\n" if size else b"[]\n"

    def gathers(self, reading: PageReading) -> bool:
        """See `PageForm.gathers`: a filtered page does not show the cursor after it."""
        return reading.is_filtered


def _read_columns(reader: Reader, reading: PageReading) -> Iterator[tuple[Track, ColumnChunk, list[bool] | None]]:
    """Yield the chunks of a page, and for each which of its events the page has; None: all.

    The page has no cursors between its events, so it is refused if some that it should have are removed meanwhile.
    """
    for track in reading.tracks:
        while chunk := reader.read_next_columns(reading, track):
            if not (reading.is_filtered or isinstance(chunk.offsets, range)):
                raise make_changing_error()  # Clients would miss an event.
            kept = ChunkRows(chunk).match(reading, track) if reading.is_sifted else None
            events = chunk.rows if kept is None else sum(kept)
            track.advance(chunk.range, events, is_filtered=reading.is_filtered)
            if chunk.rows:  # Else all of them were removed.
                yield track, chunk, kept


def combine_headers(
    event_type: str, key: bytes | None, kind: bytes | None, own: bytes | None, data: bytes
) -> dict[str, str]:
    """Return an event's headers: those derived from it, and its own, which win."""
    event: dict[str, Any] = decode(data)
    derived = derive_headers(
        event, event_type=event_type, kind=kind.decode() if kind else None, key=None if key is None else key.decode()
    )
    return derived | _decode_headers(own) if own else derived
