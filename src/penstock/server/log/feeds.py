"""The routes that read feeds: ZeroEventHub v1 and FeedAPI v2 on one URL."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.access import Claim
from penstock.core.log.cursor import add_partition_count, partition_count_error
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import (
    BadCursor,
    BadParameter,
    BadPartitionCount,
    CursorExpired,
    PartitionNotFound,
    PenstockError,
    StaleSplit,
    StaleToken,
    UnsupportedFormat,
)
from penstock.hub.hub import Hub
from penstock.hub.log.read import PageReading, WantedPartition
from penstock.server.auth import claim_of
from penstock.server.http.encoding import choose_form
from penstock.server.http.responses import json_response
from penstock.server.log.pages import HAS_ARROW, ArrowForm, LineForm, PageForm, PageResponse
from penstock.server.state import State, event_type_of, state_of
from penstock.server.telemetry import access_of
from penstock.storage.log.events import KindFilter
from penstock.wire.log import feedapi, zeroeventhub
from penstock.wire.query import HeaderChoice, Query


async def discover_feed(request: Request) -> Response:
    """GET /feeds/{event_type}: discover a feed's partitions (FeedAPI v2)."""
    state, name = state_of(request), event_type_of(request)
    feed = await state.run(lambda: state.hub.registry.load(name))
    return json_response(feedapi.discovery(feed.epoch, feed.partition_count, feed.event_type.is_exactly_once))


async def read_feed(request: Request) -> PageResponse:
    """GET /feeds/{event_type}: discover a feed (FeedAPI v2, without arguments), or read it (ZeroEventHub v1)."""
    access, state, name = access_of(request), state_of(request), event_type_of(request)
    query = Query(request.scope["query_string"])
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
    form = _choose_form(request, asked.headers, version=1)
    return PageResponse(request, ZeroEventHubPage(state.hub, name, form, asked, cursors, claim=claim))


class ZeroEventHubPage:
    """A page by ZeroEventHub v1: some partitions, each from its cursor; see `PageRequest`."""

    def __init__(
        self,
        hub: Hub,
        event_type: str,
        form: PageForm,
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

    def open(self, cursors: Mapping[int, str] | None, *, settled: bool) -> PageReading:
        """See `PageRequest.open`."""
        asked = self._asked
        wanted = [
            WantedPartition(f"cursor{v}", v, text, asked.until.get(v), f"until{v}")
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
        found = {"cache-control": "no-store"} if self._asked.cursorset else {}
        if self.form.media_type == feedapi.ARROW and (is_whole or not reading.is_filtered):
            after = ((track.view.partition, track.cursor_after(whole=is_whole)) for track in reading.tracks)
            found[feedapi.CURSOR_HEADER] = "&".join(f"cursor{partition}={cursor}" for partition, cursor in after)
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


async def read_partition(request: Request) -> PageResponse:
    """GET /feeds/{event_type}/events: read a partition (FeedAPI v2)."""
    asked = feedapi.parse_read(Query(request.scope["query_string"]))
    access_of(request).partitions = str(asked.partition)
    form = _choose_form(request, asked.headers, version=2)
    return PageResponse(request, FeedApiPage(request, form, asked))


class FeedApiPage:
    """A page by FeedAPI v2: one partition, from a cursor; see `PageRequest`."""

    def __init__(self, request: Request, form: PageForm, asked: feedapi.FeedApiRead) -> None:
        self.event_type = event_type_of(request)
        self.form = form
        self.wait_seconds = asked.wait_seconds if asked.page_size and not asked.until else 0.0
        self._hub = state_of(request).hub
        self._access = access_of(request)
        self._asked = asked
        self._kinds = _kind_filter(self.event_type, asked.kinds)

    def open(self, cursors: Mapping[int, str] | None, *, settled: bool) -> PageReading:
        """See `PageRequest.open`."""
        asked, name = self._asked, self.event_type
        self._check_token()
        cursor = cursors[asked.partition] if cursors else asked.cursor
        wanted = [WantedPartition("cursor", asked.partition, cursor, asked.until)]
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
        if self.form.media_type != feedapi.ARROW or (reading.is_filtered and not is_whole):
            return {}
        [track] = reading.tracks
        found = {feedapi.CURSOR_HEADER: track.cursor_after(whole=is_whole)}
        return found | {feedapi.LEFT_OUT_HEADER: str(track.scanned - track.kept)} if reading.is_filtered else found


def _choose_form(request: Request, headers: HeaderChoice | None, *, version: int) -> PageForm:
    offered = [zeroeventhub.NDJSON, feedapi.ARROW]
    try:
        chosen = choose_form(request, *(offered if HAS_ARROW else offered[:1]))
    except UnsupportedFormat as error:
        if not HAS_ARROW and _takes(request, feedapi.ARROW):
            raise UnsupportedFormat.of("arrow-not-installed", **error.fields) from None
        raise
    return ArrowForm(headers) if chosen == feedapi.ARROW else LineForm(version=version, headers=headers)


def _takes(request: Request, media_type: str) -> bool:
    try:
        choose_form(request, media_type)
    except UnsupportedFormat:
        return False
    return True


def _kind_filter(name: str, asked: tuple[frozenset[str], bool] | None) -> KindFilter | None:
    return KindFilter(*asked, default=name) if asked else None
