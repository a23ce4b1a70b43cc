"""The routes of feeds: ZeroEventHub v1 and FeedAPI v2 on one URL, and the way in."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.events.event import NewEvent
from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark, partition_count_error, with_partition_count
from penstock.errors import (
    BadParameter,
    BadPartitionCount,
    InvalidEvent,
    MalformedEvent,
    NotAcceptable,
    PenstockError,
)
from penstock.hub.hub import Hub
from penstock.hub.log.read import Reading, WantedPartition
from penstock.hub.log.request import PublishResult
from penstock.server.access import access_of
from penstock.server.auth import authorize, event_type_named
from penstock.server.http.encoding import choose_encoding, choose_form
from penstock.server.http.requests import read_body, refuse_foreign_body
from penstock.server.http.responses import json_response
from penstock.server.log.pages import HAS_ARROW, ArrowForm, Form, LineForm, Page
from penstock.server.log.publish import INLINE_BYTES, submitted
from penstock.server.state import State, event_type_of, state_of
from penstock.storage.log.events import KindFilter
from penstock.wire.log import feedapi, zeroeventhub
from penstock.wire.producers import refuse_numbers
from penstock.wire.query import HeaderChoice, Query

Reopen = Callable[[Mapping[int, str] | None], Reading]
Headers = Callable[[Reading, bool], dict[str, str]]

FLOW_ID: Final = "x-flow-id"


async def discover_feed(request: Request) -> Response:
    """GET /feeds/{event_type}: discover a feed's partitions (FeedAPI v2)."""
    state, name = state_of(request), event_type_of(request)
    feed = await state.run(lambda: state.hub.registry.load(name))
    return json_response(feedapi.discovery(feed.epoch, feed.partition_count, feed.event_type.is_exactly_once))


async def read_feed(request: Request) -> Page:
    """GET /feeds/{event_type}: discover a feed (FeedAPI v2, without arguments), or read it (ZeroEventHub v1)."""
    access, state, name = access_of(request), state_of(request), event_type_of(request)
    query = Query(request.scope["query_string"])
    try:
        asked = zeroeventhub.parse_read(query)
    except (BadParameter, BadPartitionCount) as error:
        raise await _naming_partitions(state, name, query, error) from None
    access.consumer, access.n = asked.cursorset or "-", asked.n
    access.partitions = _listed({*asked.cursors, *(asked.resume or ())})
    cursors = dict(asked.cursors)
    if asked.resume:
        assert asked.cursorset is not None
        cursorset, resume = asked.cursorset, asked.resume
        cursors = await state.run(lambda: state.hub.groups.resume(name, cursorset, asked.n, resume))
    kinds = _kind_filter(name, asked.kinds)

    def reopen(given: Mapping[int, str] | None) -> Reading:
        wanted = [
            WantedPartition(f"cursor{v}", v, text, asked.until.get(v), f"until{v}")
            for v, text in sorted((given or cursors).items())
        ]
        return state.hub.log.reader.open(name, asked.n, wanted, asked.page_size, kinds)

    def opened(reading: Reading) -> None:
        if asked.cursorset and asked.cursors:
            places = [(track.view, dict(track.offsets)) for track in reading.tracks]
            state.hub.groups.store_cursors(reading.feed, asked.cursorset, places)

    def headers(reading: Reading, whole: bool) -> dict[str, str]:
        found = {"cache-control": "no-store"} if asked.cursorset else {}
        if form.media_type == feedapi.ARROW and (whole or not reading.is_filtered):
            after = ((track.view.partition, track.cursor_after(whole=whole)) for track in reading.tracks)
            found[feedapi.CURSOR_HEADER] = "&".join(f"cursor{partition}={cursor}" for partition, cursor in after)
        return found

    form = _form(request, asked.headers, version=1)
    wait_seconds = asked.wait_seconds if asked.page_size and not asked.until else 0.0
    return _page(request, state, form, reopen, headers, wait_seconds=wait_seconds, opened=opened)


async def _naming_partitions(
    state: State, name: str, query: Query, error: BadParameter | BadPartitionCount
) -> PenstockError:
    """Return *error*, where n has a part in it together with how many partitions the feed has."""
    parameter = error.fields.get("parameter", "n")
    if parameter != "n" and "n" not in error.fields:
        return error
    feed = await state.run(lambda: state.hub.registry.load(name))
    if isinstance(error, BadParameter) and (parameter != "n" or len(query.texts("n")) > 1):
        return with_partition_count(error, feed.partition_count)
    return partition_count_error(error.fields.get("n", error.fields.get("value")), feed.partition_count)


async def read_partition(request: Request) -> Page:
    """GET /feeds/{event_type}/events: read a partition (FeedAPI v2)."""
    access, state, name = access_of(request), state_of(request), event_type_of(request)
    asked = feedapi.parse_read(Query(request.scope["query_string"]))
    access.partitions = str(asked.partition)
    kinds = _kind_filter(name, asked.kinds)

    def reopen(given: Mapping[int, str] | None) -> Reading:
        cursor = given[asked.partition] if given else asked.cursor
        feed = state.hub.registry.load(name)
        access.n = feed.partition_count
        feedapi.check_token(asked.token, feed.epoch, feed.partition_count)
        wanted = [WantedPartition("cursor", asked.partition, cursor, asked.until)]
        return state.hub.log.reader.open(name, None, wanted, asked.page_size, kinds)

    def headers(reading: Reading, whole: bool) -> dict[str, str]:
        if form.media_type != feedapi.ARROW or (reading.is_filtered and not whole):
            return {}
        [track] = reading.tracks
        found = {feedapi.CURSOR_HEADER: track.cursor_after(whole=whole)}
        return found | {feedapi.LEFT_OUT_HEADER: str(track.scanned - track.kept)} if reading.is_filtered else found

    form = _form(request, asked.headers, version=2)
    wait_seconds = asked.wait_seconds if asked.page_size and not asked.until else 0.0
    return _page(request, state, form, reopen, headers, wait_seconds=wait_seconds)


async def publish(request: Request) -> Response:
    """POST /feeds/{event_type}: publish lines, all or none, or by chunks."""
    access, state, name = access_of(request), state_of(request), event_type_of(request)
    refuse_foreign_body(request)
    refuse_numbers(request.headers, name)
    query = Query(request.scope["query_string"])
    chunk = query.integer("chunk", 0, low=0, high=zeroeventhub.CHUNK_EVENTS_MAX)
    body = await read_body(request, state)
    stored, more, access.received = 0, True, len(body)
    cursors: dict[int, str] = {}
    flow_id = access.flow_id if FLOW_ID in request.headers else None  # One made up here would make all lines longer.
    parts = _Parts(state.hub, name, body, chunk, flow_id)
    is_small = len(body) <= INLINE_BYTES and state.hub.registry.is_light(name, len(body))
    try:
        while more:
            future, more = await submitted(state, parts.submit, is_small=is_small)
            if future is None:
                break
            part = await asyncio.wrap_future(future)
            assert part is not None
            state.metrics.published.add(name, part.events)
            stored += part.events
            cursors |= cursors_after(part)
            access.events, access.partitions = stored, _listed(cursors)
    except PenstockError as error:
        told = InvalidEvent(**error.fields) if type(error) is MalformedEvent else error  # One code for a wrong line.
        if chunk:
            told.fields["stored"] = stored
        raise told from error.__cause__
    if not stored:
        await state.run(lambda: state.hub.registry.load(name))
    return json_response(zeroeventhub.publish_response(stored, cursors))


class _Parts:
    """The lines of a body, all of them or by chunks, each read and submitted when it is asked for."""

    def __init__(self, hub: Hub, name: str, body: bytes, chunk: int, flow_id: str | None) -> None:
        self._hub = hub
        self._name = name
        self._body = body
        self._chunk = chunk
        self._flow_id = flow_id
        self._read: tuple[Sequence[NewEvent], Sequence[int]] | None = None
        self._at = 0

    def submit(self, *, looks: bool = True) -> "tuple[Future[PublishResult | None] | None, bool]":
        """Submit the next part; tell whether another one follows. None: there is no event. See `Log.submit`."""
        events, lines = self._read = self._read or zeroeventhub.parse_lines(self._body)
        if not events:
            return None, False
        part = slice(self._at, self._at + (self._chunk or len(events)))
        future = self._hub.log.submit(self._name, events[part], lines[part], looks=looks, flow_id=self._flow_id)
        self._at = part.stop
        return future, part.stop < len(events)


def cursors_after(published: PublishResult) -> dict[int, str]:
    """Return the cursor just after what was published, by partition."""
    feed = published.feed
    count, mark = feed.partition_count, feed_mark(feed.name)
    return {
        partition: FeedCursor(mark, feed.epoch, FeedView(count, partition, count), (offset,)).encode()
        for partition, offset in published.next_offsets.items()
    }


def _form(request: Request, headers: HeaderChoice | None, *, version: int) -> Form:
    offered = [zeroeventhub.NDJSON, feedapi.ARROW]
    try:
        chosen = choose_form(request, *(offered if HAS_ARROW else offered[:1]))
    except NotAcceptable as error:
        if not HAS_ARROW and _takes(request, feedapi.ARROW):
            raise NotAcceptable.of("arrow-not-installed", **error.fields) from None
        raise
    return ArrowForm(headers) if chosen == feedapi.ARROW else LineForm(version=version, headers=headers)


def _takes(request: Request, media_type: str) -> bool:
    try:
        choose_form(request, media_type)
    except NotAcceptable:
        return False
    return True


def _kind_filter(name: str, asked: tuple[frozenset[str], bool] | None) -> KindFilter | None:
    return KindFilter(*asked, default=name) if asked else None


def _listed(partitions: Iterable[int]) -> str:
    return ",".join(map(str, sorted(partitions)))


def _page(
    request: Request,
    state: State,
    form: Form,
    reopen: Reopen,
    headers: Headers,
    *,
    wait_seconds: float,
    opened: Callable[[Reading], None] | None = None,
) -> Page:
    access, event_type = access_of(request), event_type_of(request)

    def served(name: str, events: int) -> None:
        state.metrics.served.add(name, events)
        access.events = events

    return Page(
        state.hub,
        state.run,
        form,
        event_type,
        reopen,
        allowed=partial(authorize, request, "read", event_type_named(event_type)),
        wait_seconds=wait_seconds,
        encoding=choose_encoding(request.headers.get("accept-encoding")),
        headers=headers,
        opened=opened,
        served=served,
    )
