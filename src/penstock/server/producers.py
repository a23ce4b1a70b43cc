"""The routes of idempotent producers: their epochs and sequence numbers, and publishing to a partition.

A publish to a partition is idempotent if its headers or its envelope name the producer and the sequence numbers.
"""

import re
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.events.event import NewEvent
from penstock.core.producers import OffsetRange
from penstock.core.times import format_time
from penstock.errors import BadParameter, InvalidEvent, MalformedEvent, MalformedRequest, PartitionNotFound
from penstock.hub.hub import Hub
from penstock.hub.log.publish import AppendResult, ProducerName, ProducerResult, PublishOptions
from penstock.hub.producers.producers import ProducerStatus, new_group
from penstock.server.auth import check_producer, note_publisher, publisher_of, sender_of
from penstock.server.http.requests import media_type_of, read_body, refuse_foreign_body
from penstock.server.http.responses import json_response, page_links
from penstock.server.log.publish import FLOW_ID, INLINE_BYTES, cursors_after, submit_events
from penstock.server.state import State, event_type_of, state_of
from penstock.server.telemetry import access_of
from penstock.wire import producers as wire
from penstock.wire.log.nakadi import parse_batch
from penstock.wire.log.zeroeventhub import NDJSON, parse_lines, publish_response
from penstock.wire.query import Query, make_printable

CLAIM_BYTES_MAX: Final = 1 << 16
COUNT_MAX: Final = 1_000_000
_PARTITION: Final = re.compile("0|[1-9][0-9]{0,8}")


async def show_producer(request: Request) -> Response:
    """GET /event-types/{event_type}/partitions/{partition}/producers/{group}: show the state of a producer."""
    state, who = await _read_producer(request)

    def find() -> Response:
        return _answer_status(state.hub, who.partition, state.hub.producers.find(who))

    return await state.run(find)


async def list_producers(request: Request) -> Response:
    """GET /event-types/{event_type}/partitions/{partition}/producers: list the producers of a partition."""
    state, name = state_of(request), event_type_of(request)
    partition = await read_partition(request, state, name)
    query = Query(request.scope["query_string"])
    limit = query.read_integer("limit", 100, low=1, high=wire.PRODUCERS_MAX)
    after = wire.parse_after(query.find_text("after"))

    def list_page() -> Response:
        found = state.hub.producers.list(name, partition, after=after, limit=limit + 1)
        items = [_status_object(state.hub, partition, each) for each in found[:limit]]
        path = f"/event-types/{name}/partitions/{partition}/producers"
        pages = {"next": [("after", items[-1].producer_group), ("limit", limit)]} if found[limit:] else {}
        return json_response({"items": items, "_links": page_links(request, path, pages)})

    return await state.run(list_page)


async def claim_producer(request: Request) -> Response:
    """PUT /event-types/{event_type}/partitions/{partition}/producers/{group}: claim an epoch for a producer."""
    state, who = await _read_producer(request)
    body = await read_body(request, state.run, CLAIM_BYTES_MAX)

    def claim() -> Response:
        return _answer_status(state.hub, who.partition, state.hub.producers.claim(who, wire.parse_claim(body)))

    return await state.run(claim)


async def allocate_producer(request: Request) -> Response:
    """POST /event-types/{event_type}/partitions/{partition}/producers: claim an epoch of a new group."""
    state, name = state_of(request), event_type_of(request)
    partition = await read_partition(request, state, name)
    body = await read_body(request, state.run, CLAIM_BYTES_MAX)

    def claim() -> Response:
        claim = wire.parse_claim(body)
        who = ProducerName(name, partition, new_group(claim.claim_id))
        check_producer(request, name, who.group)
        return _answer_status(state.hub, partition, state.hub.producers.claim(who, claim), 201)

    return await state.run(claim)


async def forget_producer(request: Request) -> Response:
    """DELETE /event-types/{event_type}/partitions/{partition}/producers/{group}: let a producer expire now."""
    state, who = await _read_producer(request)
    await state.run(lambda: state.hub.producers.forget(who, sender_of(request)))
    return Response(status_code=204)


async def find_sequence(request: Request) -> Response:
    """GET /event-types/{event_type}/partitions/{partition}/producers/{group}/sequences/{first}: find a batch."""
    state, who = await _read_producer(request)
    first = wire.parse_number(request.path_params["first"], "first")
    query = Query(request.scope["query_string"])
    count = query.read_integer("count", 1, low=1, high=COUNT_MAX)
    epoch = query.find_text("epoch")
    number = None if epoch is None else wire.parse_number(epoch, "epoch")

    def find() -> Response:
        known, committed = state.hub.producers.find_presence(who, first, count, number)
        return json_response(wire.OutcomeRecord(known, committed.whole, offset_objects(committed.ranges)))

    return await state.run(find)


async def _read_producer(request: Request) -> tuple[State, ProducerName]:
    state, name = state_of(request), event_type_of(request)
    partition = await read_partition(request, state, name)
    return state, ProducerName(name, partition, wire.check_group(request.path_params["group"]))


async def read_partition(request: Request, state: State, name: str) -> int:
    """Return the partition that the path names. The hub finds out whether it exists."""
    text: str = request.path_params["partition"]
    if _PARTITION.fullmatch(text):
        return int(text)
    feed = await state.run(lambda: state.hub.registry.load(name))
    raise PartitionNotFound(event_type=name, partition=make_printable(text), partition_count=feed.partition_count)


def offset_objects(ranges: Sequence[OffsetRange]) -> list[wire.OffsetSpan]:
    """Return *ranges* in the wire's shape."""
    return [wire.OffsetSpan(*each) for each in ranges]


def _answer_status(hub: Hub, partition: int, standing: ProducerStatus, status: int = 200) -> Response:
    found = _status_object(hub, partition, standing)
    answer = json_response(found, status)
    answer.headers["ETag"] = f'"{found.epoch}:{"" if found.next_sequence is None else found.next_sequence}"'
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _status_object(hub: Hub, partition: int, standing: ProducerStatus) -> wire.ProducerProperties:
    producer, state, modulus = standing.producer, standing.producer.state, hub.producers.modulus
    window = standing.window
    return wire.ProducerProperties(
        producer_group=producer.name,
        partition=partition,
        epoch=state.epoch,
        last_published_sequence=None if state.last_offset is None else (state.next - 1) % modulus,
        next_sequence=None if state.is_expired else state.next % modulus,
        last_offset=state.last_offset,
        previous=state.previous
        and wire.PreviousEpoch(state.previous.epoch, state.previous.next % modulus, state.previous.last_offset),
        window=window and wire.KnownRange(window.batches, None if window.first is None else window.first % modulus),
        pinned=producer.is_pinned,
        expired=state.is_expired,
        updated_at=format_time(producer.updated_at),
        expires_at=None if standing.expires_at is None else format_time(standing.expires_at),
        expires_after_seconds=hub.producers.ttl_seconds,
        sequence_modulus=modulus,
    )


async def publish_to_partition(request: Request) -> Response:
    """POST /event-types/{event_type}/partitions/{partition}/events: publish to a partition, all or none."""
    access = access_of(request)
    state, name = state_of(request), event_type_of(request)
    refuse_foreign_body(request)
    media_type = media_type_of(request)
    partition = await read_partition(request, state, name)
    by = wire.parse_headers(request.headers, request.headers.getlist)
    body = await read_body(request, state.run)
    access.received, access.partitions = len(body), str(partition)
    flow_id = access.flow_id if FLOW_ID in request.headers else None
    is_small = len(body) <= INLINE_BYTES and state.hub.registry.is_light(name, len(body))

    def submit(*, rechecks: bool = True) -> "Future[AppendResult | None]":
        batch = _parse_body(body, media_type, by)
        if batch.by is not None:
            check_producer(request, name, batch.by.group, asks=rechecks)
        how = PublishOptions(
            flow_id=flow_id,
            strict=batch.lines is None,
            partition=partition,
            published_by=publisher_of(request.scope),
        )
        return _submit(state.hub, name, batch, how, rechecks=rechecks)

    try:
        found = await state.wait(await submit_events(state, submit, is_small=is_small))
    except MalformedEvent as error:
        raise InvalidEvent(**error.fields) from None
    assert found is not None
    access.events = found.events
    state.metrics.published.add(name, found.events)
    note_publisher(request.scope, name)
    if found.produced is None:
        return json_response(publish_response(found.events, cursors_after(found)))
    return _answer_published(found.produced)


class _Batch(NamedTuple):
    by: wire.ProducerHeaders | None
    events: Sequence[NewEvent]
    lines: Sequence[int] | None


def _parse_body(body: bytes, media_type: str, by: wire.ProducerHeaders | None) -> _Batch:
    """Return the events of a body: lines, an array, or an envelope with a producer and an array."""
    lines: Sequence[int] | None = None
    events: Sequence[NewEvent]
    if media_type == wire.ENVELOPE:
        if by is not None:
            raise BadParameter.of(
                "bad-producer-headers", parameter=wire.GROUP, value=by.group, allowed="headers or an envelope, not both"
            )
        by, events = wire.parse_envelope(body)
    elif media_type == NDJSON:
        events, lines = parse_lines(body)
    else:
        events = parse_batch(body)
    if not events:
        raise MalformedRequest.of("malformed-batch", "the body has no events", reason="it has no events")
    return _Batch(by, events, lines)


def _submit(
    hub: Hub, name: str, batch: _Batch, how: PublishOptions, *, rechecks: bool
) -> "Future[AppendResult | None]":
    by = batch.by
    if by is None:
        return hub.log.submit(name, batch.events, batch.lines, rechecks=rechecks, **how)
    assert how["partition"] is not None
    who = ProducerName(name, how["partition"], by.group)
    deadline = None if by.deadline_ms is None else time.monotonic() + by.deadline_ms / 1000
    return hub.producers.submit(
        who, by.stamp, batch.events, batch.lines, rechecks=rechecks, trims=by.trims, deadline=deadline, **how
    )


def _answer_published(produced: ProducerResult) -> Response:
    ranges = offset_objects(produced.ranges)
    numbers = wire.SequenceRange(produced.first, produced.last, produced.next)
    one = ranges[0] if len(ranges) == 1 else None
    answer = json_response(wire.PublishedBatch(produced.outcome, produced.epoch, numbers, one, [] if one else ranges))
    answer.headers[wire.EPOCH] = str(produced.epoch)
    answer.headers[wire.NEXT] = str(produced.next)
    return answer
