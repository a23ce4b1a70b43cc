"""The routes of partitions and cursors, in Nakadi's shape: where partitions end, and how far cursors are apart."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.registry.event_type import StoredFeed
from penstock.errors import EventTypeNotFound, PartitionNotFound, UnusableCursor
from penstock.hub.hub import Hub
from penstock.server.http.requests import read_body
from penstock.server.http.responses import json_response
from penstock.server.log.pages import settle
from penstock.server.state import State, event_type_of, state_of
from penstock.wire.log.nakadi import (
    CursorPlace,
    GivenCursor,
    GivenPair,
    GivenShift,
    OffsetExtent,
    check_distinct,
    cursor_object,
    distance,
    parse_at,
    parse_body,
    parse_list,
    parse_readable_place,
    partition_extent_object,
    partition_number,
    shift_cursor,
)
from penstock.wire.query import Query, printable

CURSORS_BYTES_MAX: Final = 1024 * 1024
Found = TypeVar("Found")


class Look(NamedTuple):
    """A feed, and what each of its partitions had at one look."""

    feed: StoredFeed
    extents: Sequence[OffsetExtent]


async def list_partitions(request: Request) -> Response:
    """GET /event-types/{event_type}/partitions: show where each partition begins and ends, the outbox included."""
    state, name = state_of(request), event_type_of(request)
    text = Query(request.scope["query_string"]).text("cursors")
    given = [] if text is None else parse_list(text, "cursors")

    def shown_partitions(extents: Sequence[OffsetExtent]) -> list[dict[str, Any]]:
        places = [parse_readable_place(each, extents, f"cursors[{index}]") for index, each in enumerate(given)]
        check_distinct(places)
        others = sorted(set(range(len(extents))) - {place.partition for place in places})
        return [partition_extent_object(extents[partition], partition) for partition in others] + _lags(places, extents)

    return await _answer(state, name, shown_partitions)


async def show_partition(request: Request) -> Response:
    """GET /event-types/{event_type}/partitions/{partition}: show where one partition begins and ends."""
    state, name = state_of(request), event_type_of(request)
    consumed = Query(request.scope["query_string"]).text("consumed_offset")
    text = request.path_params["partition"]

    def shown_partition(extents: Sequence[OffsetExtent]) -> dict[str, Any]:
        if consumed is not None:
            return _lags([parse_readable_place(GivenCursor(text, consumed), extents)], extents)[0]
        try:
            number = partition_number(text, extents)
        except UnusableCursor:
            fields = {"event_type": name, "partition": printable(text), "partition_count": len(extents)}
            raise PartitionNotFound("partition not found", **fields) from None
        return partition_extent_object(extents[number], number)

    return await _answer(state, name, shown_partition)


async def measure_distances(request: Request) -> Response:
    """POST /event-types/{event_type}/cursor-distances: tell how many events lie between two cursors, for each pair."""
    state, name = state_of(request), event_type_of(request)
    body = await read_body(request, state, CURSORS_BYTES_MAX)

    def distances(extents: Sequence[OffsetExtent]) -> list[dict[str, Any]]:
        return [distance(each, extents, f"[{index}]") for index, each in enumerate(parse_body(body, GivenPair))]

    return await _answer(state, name, distances)


async def shift_cursors(request: Request) -> Response:
    """POST /event-types/{event_type}/shifted-cursors: tell the cursors so many events further on, or back."""
    state, name = state_of(request), event_type_of(request)
    body = await read_body(request, state, CURSORS_BYTES_MAX)

    def cursors(extents: Sequence[OffsetExtent]) -> list[dict[str, Any]]:
        return [shift_cursor(each, extents, f"[{index}]") for index, each in enumerate(parse_body(body, GivenShift))]

    return await _answer(state, name, cursors)


async def measure_lag(request: Request) -> Response:
    """POST /event-types/{event_type}/cursors-lag: tell how many events come after each cursor."""
    state, name = state_of(request), event_type_of(request)
    body = await read_body(request, state, CURSORS_BYTES_MAX)

    def lags(extents: Sequence[OffsetExtent]) -> list[dict[str, Any]]:
        given = parse_body(body, GivenCursor)
        return _lags([parse_readable_place(each, extents, f"[{index}]") for index, each in enumerate(given)], extents)

    return await _answer(state, name, lags)


async def find_cursors(request: Request) -> Response:
    """GET /event-types/{event_type}/cursors: tell where each partition has what came at a time or later."""
    state, name = state_of(request), event_type_of(request)
    at = parse_at(Query(request.scope["query_string"]))

    def cursors() -> Response:
        feed, positions = state.hub.log.since(name, at)
        return json_response([cursor_object(feed.epoch, CursorPlace(*each)) for each in enumerate(positions)])

    return await _settled(state, name, cursors)


async def look(state: State, name: str) -> Look:
    """Return what the partitions of a feed have, what services have committed to the outbox included.

    Raises:
        EventTypeNotFound: there is none.
        HubUnavailable, DatabaseUnavailable: what waits in the outbox could not be moved now.
    """
    return await _settled(state, name, lambda: _looked(state.hub, name))


async def _answer(state: State, name: str, reckon: Callable[[Sequence[OffsetExtent]], Any]) -> Response:
    """Return what *reckon* makes of what the partitions of a feed have.

    It reads the body too, all in one go in a worker thread: there can be tens of thousands of cursors in it.
    """
    return await _settled(state, name, lambda: json_response(reckon(_looked(state.hub, name).extents)))


def _looked(hub: Hub, name: str) -> Look:
    feed, heads = hub.log.heads(name)
    if len(heads) < feed.partition_count:
        raise EventTypeNotFound(event_type=name)  # Dropped between the two looks.
    ends = [heads[partition_id] for partition_id in feed.partition_ids]
    return Look(feed, [OffsetExtent(feed.epoch, end.floor, end.next_offset) for end in ends])


async def _settled(state: State, name: str, find: Callable[[], Found]) -> Found:
    """Return what *find* does in a worker thread, once what waits in the outbox is in the log; no thread waits."""
    if await state.run(lambda: state.hub.log.has_waiting(name)):
        await settle(state.hub, name)
    return await state.run(find)


def _lags(places: Sequence[CursorPlace], extents: Sequence[OffsetExtent]) -> list[dict[str, Any]]:
    return [partition_extent_object(extents[partition], partition, position) for partition, position in places]
