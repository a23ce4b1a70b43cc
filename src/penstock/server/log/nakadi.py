"""The routes of partitions and cursors in Nakadi's shape: ends of partitions, distances of cursors."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.registry.event_type import StoredFeed
from penstock.errors import EventTypeNotFound, PartitionNotFound, UnusablePosition
from penstock.hub.hub import Hub
from penstock.server.http.requests import read_body
from penstock.server.http.responses import json_response
from penstock.server.state import State, event_type_of, state_of
from penstock.wire.log.nakadi import (
    CursorPlace,
    GivenCursor,
    GivenPair,
    GivenShift,
    OffsetExtent,
    check_distinct,
    cursor_object,
    measure_distance,
    parse_at,
    parse_body,
    parse_list,
    parse_partition_number,
    parse_readable_place,
    partition_extent_object,
    shift_cursor,
)
from penstock.wire.query import Query, make_printable

CURSORS_BYTES_MAX: Final = 1024 * 1024
Found = TypeVar("Found")


class FeedExtents(NamedTuple):
    """A feed, and the first and the next offset of each of its partitions at one time."""

    feed: StoredFeed
    extents: Sequence[OffsetExtent]


async def list_partitions(request: Request) -> Response:
    """GET /event-types/{event_type}/partitions: show where each partition begins and ends, the outbox included."""
    state, name = state_of(request), event_type_of(request)
    text = Query(request.scope["query_string"]).find_text("cursors")
    given = [] if text is None else parse_list(text, "cursors")

    def describe_partitions(extents: Sequence[OffsetExtent]) -> list[dict[str, Any]]:
        places = [parse_readable_place(each, extents, f"cursors[{index}]") for index, each in enumerate(given)]
        check_distinct(places)
        others = sorted(set(range(len(extents))) - {place.partition for place in places})
        return [partition_extent_object(extents[partition], partition) for partition in others] + _lag_objects(
            places, extents
        )

    return await _answer_about(state, name, describe_partitions)


async def show_partition(request: Request) -> Response:
    """GET /event-types/{event_type}/partitions/{partition}: show where one partition begins and ends."""
    state, name = state_of(request), event_type_of(request)
    consumed = Query(request.scope["query_string"]).find_text("consumed_offset")
    text = request.path_params["partition"]

    def describe_partition(extents: Sequence[OffsetExtent]) -> dict[str, Any]:
        if consumed is not None:
            return _lag_objects([parse_readable_place(GivenCursor(text, consumed), extents)], extents)[0]
        try:
            number = parse_partition_number(text, extents)
        except UnusablePosition:
            fields = {"event_type": name, "partition": make_printable(text), "partition_count": len(extents)}
            raise PartitionNotFound("partition not found", **fields) from None
        return partition_extent_object(extents[number], number)

    return await _answer_about(state, name, describe_partition)


async def measure_distances(request: Request) -> Response:
    """POST /event-types/{event_type}/cursor-distances: count the events between two cursors, for each pair."""
    state, name = state_of(request), event_type_of(request)
    body = await read_body(request, state.run, CURSORS_BYTES_MAX)

    def measure(extents: Sequence[OffsetExtent]) -> list[dict[str, Any]]:
        return [measure_distance(each, extents, f"[{index}]") for index, each in enumerate(parse_body(body, GivenPair))]

    return await _answer_about(state, name, measure)


async def shift_cursors(request: Request) -> Response:
    """POST /event-types/{event_type}/shifted-cursors: move cursors by a number of events, forward or back."""
    state, name = state_of(request), event_type_of(request)
    body = await read_body(request, state.run, CURSORS_BYTES_MAX)

    def shift(extents: Sequence[OffsetExtent]) -> list[dict[str, Any]]:
        return [shift_cursor(each, extents, f"[{index}]") for index, each in enumerate(parse_body(body, GivenShift))]

    return await _answer_about(state, name, shift)


async def measure_lag(request: Request) -> Response:
    """POST /event-types/{event_type}/cursors-lag: count the events after each cursor."""
    state, name = state_of(request), event_type_of(request)
    body = await read_body(request, state.run, CURSORS_BYTES_MAX)

    def measure(extents: Sequence[OffsetExtent]) -> list[dict[str, Any]]:
        given = parse_body(body, GivenCursor)
        return _lag_objects(
            [parse_readable_place(each, extents, f"[{index}]") for index, each in enumerate(given)], extents
        )

    return await _answer_about(state, name, measure)


async def find_cursors(request: Request) -> Response:
    """GET /event-types/{event_type}/cursors: find the first event of each partition since a time."""
    state, name = state_of(request), event_type_of(request)
    at = parse_at(Query(request.scope["query_string"]))

    def find() -> Response:
        feed, positions = state.hub.log.reader.find_offsets_since(name, at)
        return json_response([cursor_object(feed.epoch, CursorPlace(*each)) for each in enumerate(positions)])

    return await state.run_settled([name], find)


async def find_extents(state: State, name: str) -> FeedExtents:
    """Return the extents of a feed's partitions, with the rows that services have committed to the outbox.

    Raises:
        EventTypeNotFound: there is none.
        HubUnavailable, DatabaseUnavailable: the outbox could not be moved now.
    """
    return await state.run_settled([name], lambda: _read_extents(state.hub, name))


async def _answer_about(state: State, name: str, describe: Callable[[Sequence[OffsetExtent]], Any]) -> Response:
    """Answer with the result of *describe*, called with the extents of a feed's partitions.

    It is called in a worker thread, and parses the body there: that can have tens of thousands of cursors.
    """
    return await state.run_settled([name], lambda: json_response(describe(_read_extents(state.hub, name).extents)))


def _read_extents(hub: Hub, name: str) -> FeedExtents:
    feed, heads = hub.log.reader.find_heads(name)
    if len(heads) < feed.partition_count:
        raise EventTypeNotFound(event_type=name)  # Dropped between the two looks.
    ends = [heads[partition_id] for partition_id in feed.partition_ids]
    return FeedExtents(feed, [OffsetExtent(feed.epoch, end.floor, end.next_offset) for end in ends])


def _lag_objects(places: Sequence[CursorPlace], extents: Sequence[OffsetExtent]) -> list[dict[str, Any]]:
    return [partition_extent_object(extents[partition], partition, position) for partition, position in places]
