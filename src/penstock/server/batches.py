"""The routes of batches: uploads, their chunks, and the batches that are made of them."""

import json
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.times import format_time
from penstock.errors import InvalidEvent, MalformedEvent, MalformedRequest, RequestTooLarge, UnsupportedFormat
from penstock.hub.admin.sweeping import UPLOAD_SECONDS
from penstock.hub.batches.batches import UploadManifest, digest_of
from penstock.hub.log.publish import BatchName, NewEvents
from penstock.server.auth import check_producer, note_publisher, publisher_of, sender_of
from penstock.server.http.requests import media_type_of, read_body
from penstock.server.http.responses import json_response
from penstock.server.state import event_type_of, state_of
from penstock.server.telemetry import access_of
from penstock.storage.batches import LedgerBatch
from penstock.wire import batches as wire
from penstock.wire.log.zeroeventhub import NDJSON, parse_lines
from penstock.wire.producers import check_group, parse_number
from penstock.wire.query import Query

OPEN_BYTES_MAX: Final = 1 << 16
PUBLISH_BYTES_MAX: Final = 4 << 20
LIST_MAX: Final = 100


async def open_upload(request: Request) -> Response:
    """POST /event-types/{event_type}/uploads: begin an upload for a batch, or show the batch if it has begun."""
    state, event_type = state_of(request), event_type_of(request)
    body = await read_body(request, state.run, OPEN_BYTES_MAX)

    def begin() -> Response:
        wanted = wire.parse_open(body)
        name = BatchName(event_type, wanted.producer_group, wanted.batch)
        check_producer(request, event_type, wanted.producer_group)
        found = state.hub.batches.open(name, wanted.query)
        if isinstance(found, str):
            return json_response(wire.OpenedUpload(found, UPLOAD_SECONDS), 201)
        return json_response(_batch_object(name.group, found))

    return await state.run(begin)


async def put_chunk(request: Request) -> Response:
    """PUT /event-types/{event_type}/uploads/{upload}/chunks/{chunk}: hand in a chunk of an upload."""
    access = access_of(request)
    state, event_type = state_of(request), event_type_of(request)
    upload, number = request.path_params["upload"], parse_number(request.path_params["chunk"], "chunk")
    rejects = Query(request.scope["query_string"]).read_flag("reject_invalid")
    media_type = media_type_of(request)
    if media_type != NDJSON:
        raise UnsupportedFormat.of("unsupported-media-type", given=media_type or "nothing", allowed=NDJSON)
    body = await read_body(request, state.run)
    access.received = len(body)

    def add() -> Response:
        _check_upload(request, event_type, upload)
        events, lines = parse_lines(body)
        if not events:
            raise MalformedRequest.of("malformed-batch", "the body has no events", reason="it has no events")
        if len(events) > wire.CHUNK_EVENTS_MAX:
            raise RequestTooLarge.of("too-many-events", limit=wire.CHUNK_EVENTS_MAX)
        digest = digest_of(body)
        handed = NewEvents(events, lines, published_by=publisher_of(request.scope))
        try:
            kept, rejected = state.hub.batches.add(event_type, upload, number, handed, digest, rejects=rejects)
        except MalformedEvent as error:
            raise InvalidEvent(**error.fields) from None
        refusals = [wire.RejectedLine(each.line, each.reason) for each in rejected]
        return json_response(wire.AcceptedChunk(number, kept.events, digest.hex(), refusals))

    return await state.run(add)


async def drop_upload(request: Request) -> Response:
    """DELETE /event-types/{event_type}/uploads/{upload}: forget an upload that is part of no batch."""
    state, event_type = state_of(request), event_type_of(request)
    upload = request.path_params["upload"]

    def drop() -> None:
        _check_upload(request, event_type, upload)
        state.hub.batches.drop(event_type, upload)

    await state.run(drop)
    return Response(status_code=204)


def _check_upload(request: Request, event_type: str, upload: str) -> None:
    """Check that the sender may use the producer group for which an upload was begun; call it in a worker thread.

    Raises:
        BatchNotFound: there is no such upload.
        AccessDenied: see `check_producer`.
    """
    state = state_of(request)
    if state.authentication is not None:
        check_producer(request, event_type, state.hub.batches.find_upload(event_type, upload).group)


async def publish_uploads(request: Request) -> Response:
    """PUT /event-types/{event_type}/producers/{group}/batches/{batch}: publish a batch, each event of it once."""
    access = access_of(request)
    state, name = state_of(request), event_type_of(request)
    batch = _batch_name(request, name)
    body = await read_body(request, state.run, PUBLISH_BYTES_MAX)

    def publish() -> Response:
        wanted = wire.parse_publish(body)
        parts = [
            UploadManifest(each.upload, each.chunks, each.events, bytes.fromhex(each.digest)) for each in wanted.uploads
        ]
        done = state.hub.batches.publish(batch, wanted.query, parts)
        access.events = done.appended
        state.metrics.published.add(name, done.appended)
        note_publisher(request.scope, name)
        return json_response(_batch_object(batch.group, done.batch))

    return await state.run(publish)


async def show_batch(request: Request) -> Response:
    """GET /event-types/{event_type}/producers/{group}/batches/{batch}: show how far a batch is published."""
    state, event_type = state_of(request), event_type_of(request)
    name = _batch_name(request, event_type)
    return await state.run(lambda: json_response(_batch_object(name.group, state.hub.batches.get_batch(name))))


async def list_batches(request: Request) -> Response:
    """GET /event-types/{event_type}/producers/{group}/batches: list the newest batches of a producer group."""
    state, event_type = state_of(request), event_type_of(request)
    group = check_group(request.path_params["group"])
    limit = Query(request.scope["query_string"]).read_integer("limit", 20, low=1, high=LIST_MAX)

    def list_newest() -> Response:
        found = state.hub.batches.list_batches(event_type, group, limit)
        return json_response(wire.BatchList([_batch_object(group, each) for each in found]))

    return await state.run(list_newest)


async def forget_batches(request: Request) -> Response:
    """DELETE /event-types/{event_type}/producers/{group}/batches: forget a producer group's batches."""
    state, event_type = state_of(request), event_type_of(request)
    group = check_group(request.path_params["group"])

    def forget() -> Response:
        count = state.hub.batches.forget(event_type, group, by=sender_of(request))
        return json_response(wire.ForgottenBatches(count))

    return await state.run(forget)


def _batch_name(request: Request, event_type: str) -> BatchName:
    group = check_group(request.path_params["group"])
    return BatchName(event_type, group, parse_number(request.path_params["batch"], "batch"))


def _batch_object(group: str, batch: LedgerBatch) -> wire.BatchStatus:
    return wire.BatchStatus(
        producer_group=group,
        batch=batch.number,
        query=batch.query,
        state="published" if batch.is_done else "publishing",
        events=batch.events,
        rejected=batch.rejected,
        offsets=json.loads(batch.offsets),
        begun_at=format_time(batch.begun_at),
        updated_at=format_time(batch.updated_at),
    )
