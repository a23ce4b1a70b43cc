"""Streams an event type's batches to those who keep their own cursors, as Nakadi's low-level interface does.

A stream waits without a thread and without a connection to the database, is bounded in memory, and ends as soon as its
client has left. After its headers are sent nothing can be told any more: whatever ends it then is in the access log.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from penstock.core.log.batching import Rules
from penstock.errors import EventTypeNotFound, PenstockError, UnusableStart
from penstock.hub.hub import Hub
from penstock.server.access import access_of
from penstock.server.ahead import Piece, Run
from penstock.server.caller import caller_of
from penstock.server.cursors import look
from penstock.server.encoding import choose_encoding
from penstock.server.gathering import send_ahead
from penstock.server.state import event_type_of, state_of
from penstock.server.stream_pieces import StreamPieces
from penstock.server.waiting import Leaving, leaving, something_new, unless
from penstock.wire.nakadi_cursors import HEADER, Extent, Place, check_distinct, parse_header, readable
from penstock.wire.nakadi_stream import MEDIA_TYPE, Asked, parse_stream
from penstock.wire.query import Query

TIMEOUT_SECONDS: Final = (3_000.0, 4_200.0)
"""When a stream ends that has not said when: at random, so that those that began together do not end together."""


async def stream_events(request: Request) -> "EventStream":
    """GET /event-types/{event_type}/events: stream batches of events to one who keeps its own cursors."""
    access, state = access_of(request), await state_of(request)
    access.event = "read"
    try:
        name = event_type_of(request)
        allowed = partial(state.hub.check, caller_of(request), "read", name)
        allowed()
        feed, extents = await look(state, name)
    except EventTypeNotFound as error:
        raise EventTypeNotFound("topic not found", **error.fields) from None
    header = request.headers.get(HEADER)
    positions = _positions(header, extents)
    asked = parse_stream(Query(request.scope["query_string"]))
    access.n, access.partitions = feed.partition_count, ",".join(map(str, sorted(positions)))

    def served(events: int) -> None:
        state.metrics.served.add(name, events)
        access.events += events

    rules = _rules(asked, state.hub.limits.stream_bytes_max)
    encoding = choose_encoding(request.headers.get("accept-encoding"))
    pieces = StreamPieces(
        state.hub, feed, positions, allowed=allowed, rules=rules, encoding=encoding, all_partitions=header is None
    )
    return EventStream(
        pieces,
        state.hub,
        state.run,
        encoding=encoding,
        allowed=allowed,
        served=served,
        ended=access.refuse,
    )


class EventStream:
    """One stream for one reader: an ASGI response."""

    def __init__(
        self,
        pieces: StreamPieces,
        hub: Hub,
        run: Run,
        *,
        encoding: str | None,
        allowed: Callable[[], None],
        served: Callable[[int], None],
        ended: Callable[[PenstockError], None],
    ) -> None:
        """Prepare to send *pieces*.

        *allowed* is asked while the stream waits, and raises once the reader may no longer read. *served* is told how
        many events have been sent since it was last told, and *ended* what has ended the stream before its time.
        """
        self._pieces = pieces
        self._hub = hub
        self._run = run
        self._encoding = encoding
        self._allowed = allowed
        self._served = served
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the stream or the client's patience is over; of HEAD send the headers alone."""
        await send(self._start())
        if scope["method"] == "HEAD":
            await send(_body(b"", more=False))
            return
        left = leaving(receive)
        try:
            if await self._stream(send, left):
                await unless(left, send(_body(self._pieces.end(), more=False)))
        finally:
            left.cancel()

    async def _stream(self, send: Send, left: Leaving) -> bool:
        """Send batches until there are no more to be sent; False: the client is gone, or takes nothing."""
        try:
            await unless(left, send(_body(b"", more=True)))  # Some servers keep headers back until then.
            while not left.done():
                if not await self._send(await self._run(self._pieces.begin), send, left):
                    return False
                if self._pieces.over:
                    return True
                if not self._pieces.unread:
                    await self._something_new(left)
        except PenstockError as error:
            self._ended(error)
            return True
        return False

    async def _send(self, piece: Piece, send: Send, left: Leaving) -> bool:
        """Send *piece* and the rest; False: the client is gone, or takes nothing."""
        pieces = self._pieces

        async def send_one(piece: Piece) -> bool:
            return await unless(left, send(_body(piece.body, more=True)), pieces.patience)

        return await send_ahead(piece, pieces.next, self._run, send_one, self._served)

    async def _something_new(self, left: Leaving) -> None:
        """Wait until there may be something to read, or something has to be sent without."""
        pieces, watch = self._pieces, self._hub.watch()
        await something_new(watch, pieces.waits_at, pieces.idle_seconds, left, self._allowed)

    def _start(self) -> dict[str, Any]:
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"vary", b"Accept-Encoding")]
        if self._encoding:
            headers.append((b"content-encoding", self._encoding.encode()))
        return {"type": "http.response.start", "status": 200, "headers": headers}


def _positions(header: str | None, extents: Sequence[Extent]) -> dict[int, int]:
    """Return the offset wanted next of each partition that is to be read.

    Raises:
        BadParameter: the header is no list of cursors.
        UnusableStart: a stream cannot begin there.
    """
    if header is None:
        return {partition: extent.next_offset for partition, extent in enumerate(extents)}
    given = parse_header(header)
    if not given:
        reason = f"{HEADER} names no partition"
        raise UnusableStart(reason, partition=None, offset=None, reason=reason)
    places: list[Place] = [readable(each, extents, f"[{at}]", kind=UnusableStart) for at, each in enumerate(given)]
    check_distinct(places, UnusableStart)
    return dict(places)


def _rules(asked: Asked, bytes_max: int) -> Rules:
    timeout_s = random.uniform(*TIMEOUT_SECONDS) if asked.stream_timeout is None else asked.stream_timeout  # noqa: S311
    return Rules(
        batch_limit=asked.batch_limit,
        stream_limit=asked.stream_limit,
        flush_s=asked.batch_flush_timeout,
        timeout_s=timeout_s,
        keep_alive_limit=asked.stream_keep_alive_limit,
        bytes_max=bytes_max,
    )


def _body(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}
