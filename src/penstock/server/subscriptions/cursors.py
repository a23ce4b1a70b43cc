"""The routes of a subscription's cursors (show, commit, reset) and of its streams' leases.

Source: Nakadi's subscription API, https://nakadi.io/manual.html; leases are Penstock's own.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Final
from uuid import UUID, uuid4

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.registry.definition import is_name
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.errors import (
    BadParameter,
    EventTypeNotFound,
    HubUnavailable,
    InvalidSubscription,
    PenstockError,
    StreamNotFound,
    UnusablePosition,
)
from penstock.hub.hub import Hub
from penstock.hub.subscriptions.commits import CursorCommit
from penstock.server.auth import admit, authorize_now, event_type_named, sender_of
from penstock.server.http.requests import read_body
from penstock.server.http.responses import json_response
from penstock.server.state import state_of, subscription_of
from penstock.server.subscriptions.subscriptions import find_extents
from penstock.server.telemetry import access_of
from penstock.wire.log.nakadi import UNUSABLE, OffsetExtent, parse_time
from penstock.wire.query import make_printable
from penstock.wire.subscriptions import (
    STREAM_ID,
    GivenCursors,
    GivenReset,
    GivenSubscriptionCursor,
    commit_results,
    parse_committed,
    parse_cursors,
    parse_release,
    parse_reset_target,
    parse_subscription_reset,
    planned_object,
    subscription_cursor_object,
)

BODY_BYTES_MAX: Final = 1 << 20
POLL_INTERVAL: Final = 0.020
"""Seconds between two looks whether the streams in the way of a reset have ended."""
RELEASE_TIMEOUT: Final = 0.5
"""The longest wait for the end of a stream that is released."""
_OFFSET_MAX: Final = 1 << 62


async def show_cursors(request: Request) -> Response:
    """GET /subscriptions/{subscription}/cursors: show the committed cursor of each partition."""
    state, subscription_id = state_of(request), subscription_of(request)

    def list_cursors() -> Response:
        slots = state.hub.subscriptions.sessions.snapshot(subscription_id).slots
        items = [subscription_cursor_object(slot.place, slot.epoch, slot.offset, str(uuid4())) for slot in slots]
        return json_response({"items": items})

    return await state.run(list_cursors)


async def commit_cursors(request: Request) -> Response:
    """POST /subscriptions/{subscription}/cursors: commit the events that a stream was sent, up to these cursors."""
    state, subscription_id = state_of(request), subscription_of(request)
    access = access_of(request)
    access.consumer = subscription_id
    hub, stream_id = state.hub, request.headers.get(STREAM_ID)
    if stream_id is None:
        raise BadParameter(parameter=STREAM_ID, value=None, allowed="the id of the stream, from its headers")
    given = parse_cursors(await read_body(request, state.run, BODY_BYTES_MAX))
    items = _check_items(given)
    if all(each is None or each.event_type in hub.registry.remembered for each in items):
        commits = _parse_commits(hub, items)
    else:
        commits = await state.run(lambda: _parse_commits(hub, items))
    resources = (event_type_named(name) for name in {commit.place[0] for commit in commits})
    await admit(request.scope, "read", *resources, may_be_missing=True)
    commit = hub.subscriptions.commits.submit(subscription_id, _stream_id(stream_id), commits)
    moved = await state.wait(commit)
    return Response(status_code=204) if all(moved) else json_response(commit_results(items, moved))


async def reset_cursors(request: Request) -> Response:
    """PATCH /subscriptions/{subscription}/cursors: end the streams, and go on at these cursors."""
    state, subscription_id = state_of(request), subscription_of(request)
    hub = state.hub
    body = await read_body(request, state.run, BODY_BYTES_MAX)
    given = parse_subscription_reset(body, strict=hub.limits.strict)
    if given.dry_run:
        return await state.run(lambda: json_response(_dry_run(request, subscription_id, given)))

    def begin() -> Mapping[FeedPartition, int]:
        _check_named(request, subscription_id, given)
        offsets = _find_targets(hub, given)
        hub.subscriptions.resets.begin(subscription_id, offsets)
        return offsets

    offsets = await state.run(begin)
    if offsets:
        by = sender_of(request)
        set_all = partial(hub.subscriptions.resets.finish, subscription_id, offsets, given.reason, by=by)
        try:
            while not await state.run(set_all):  # noqa: ASYNC110 - they may be streams of other hubs
                await asyncio.sleep(POLL_INTERVAL)
        except PenstockError:
            with suppress(PenstockError):
                await state.run(lambda: hub.subscriptions.resets.cancel(subscription_id))
            raise
    return Response(status_code=204)


def _check_named(request: Request, subscription_id: str, given: GivenReset) -> None:
    """Check that the sender may look at the event types that a reset names and that are none of the subscription's.

    The reset is refused anyway, but why tells where they begin and end.
    """
    definition = state_of(request).hub.subscriptions.find(subscription_id).definition
    named = {each.event_type or "" for each in given.items or () if each is not None}
    authorize_now(request, "view", *map(event_type_named, sorted(named.difference(definition["event_types"]))))


def _dry_run(request: Request, subscription_id: str, given: GivenReset) -> Mapping[str, object]:
    """Return the positions that a reset would set, and the resulting changes, or raise the error of the reset."""
    hub = state_of(request).hub
    _check_named(request, subscription_id, given)
    offsets = _find_targets(hub, given)
    before = hub.subscriptions.resets.dry_run(subscription_id, offsets)
    items = [planned_object(place, *before[place], offset) for place, offset in sorted(offsets.items())]
    return {"items": items, "dry_run": True}


async def extend_lease(request: Request) -> Response:
    """POST /subscriptions/{subscription}/streams/{stream}/lease: restart the commit timeout of a stream."""
    state, subscription_id = state_of(request), subscription_of(request)
    stream_id = _stream_id(request.path_params["stream"])
    await state.run(lambda: state.hub.subscriptions.streams.extend(subscription_id, stream_id))
    return Response(status_code=204)


async def release_stream(request: Request) -> Response:
    """POST /subscriptions/{subscription}/streams/{stream}/release: end a stream and free its partitions."""
    state, subscription_id = state_of(request), subscription_of(request)
    stream_id = _stream_id(request.path_params["stream"])
    given = parse_release(await read_body(request, state.run, BODY_BYTES_MAX))
    release = partial(state.hub.subscriptions.streams.release, subscription_id, stream_id, *given)
    deadline = time.monotonic() + RELEASE_TIMEOUT
    if await state.run(release):
        return Response(status_code=204)
    while not await state.run(lambda: _is_released(release)):
        if time.monotonic() > deadline:
            detail = f"stream {stream_id} is to end, but its hub has not ended it yet: ask again"
            raise HubUnavailable.of(
                "streams-in-the-way", detail, subscription=subscription_id, streams=1, retry_after=1
            )
        await asyncio.sleep(POLL_INTERVAL)
    return Response(status_code=204)


def _is_released(release: Callable[[], bool]) -> bool:
    """Release a stream that is to end; return whether that is done. One that had committed everything is gone."""
    try:
        return release()
    except StreamNotFound:
        return True


def _check_items(given: GivenCursors) -> Sequence[GivenSubscriptionCursor | None]:
    if not given.items:
        raise _field_error("items", "is empty: there is nothing to commit")
    return given.items


def _field_error(name: str, wrong: str) -> UnusablePosition:
    return UnusablePosition.of(
        UNUSABLE, f'Field "{name}" {wrong}', partition=None, offset=None, reason=f"{name} {wrong}"
    )


def _parse_commits(hub: Hub, items: Sequence[GivenSubscriptionCursor | None]) -> Sequence[CursorCommit]:
    """Parse the cursors of a commit. The hub compares them with the events that were sent, not with the log."""

    @cache
    def extents(name: str) -> Sequence[OffsetExtent]:
        try:
            feed = hub.registry.remembered.get(name) or hub.registry.load(_check_name(name))
        except EventTypeNotFound as error:
            raise _unknown_event_type(name) from error
        return [OffsetExtent(feed.epoch, 0, _OFFSET_MAX)] * feed.partition_count

    return [
        CursorCommit(*parse_committed(each, extents, f"items[{at}]"), each.cursor_token if each else None)
        for at, each in enumerate(items)
    ]


def _find_targets(hub: Hub, given: GivenReset) -> Mapping[FeedPartition, int]:
    """Return the next offsets wanted after a reset.

    Raises:
        UnusablePosition: a cursor is malformed, or some events after it are gone.
        InvalidSubscription: a partition has two cursors.
    """

    @cache
    def extents(name: str) -> Sequence[OffsetExtent]:
        try:
            return find_extents(hub, _check_name(name))
        except EventTypeNotFound as error:
            raise _unknown_event_type(name) from error

    @cache
    def since(name: str, text: str) -> Sequence[int]:
        return hub.log.find_offsets_since(name, parse_time(text, "offset"))[1]

    if given.items is None:
        raise _field_error("items", "is missing: an empty list only has the subscription begin")
    items = given.items
    found = dict(parse_reset_target(each, extents, since, f"items[{at}]") for at, each in enumerate(items))
    if len(found) < len(items):
        detail = "a partition has more than one cursor"
        raise InvalidSubscription(detail, field="items", reason="must have each partition once")
    return found


def _check_name(name: str) -> str:
    """Return *name*, or raise UnusablePosition if no event type can have it."""
    if not is_name(name):
        raise _unknown_event_type(name)
    return name


def _unknown_event_type(name: str) -> UnusablePosition:
    reason = f"there is no event type {make_printable(name)!r}"
    return UnusablePosition.of(UNUSABLE, reason, partition=None, offset=None, reason=reason)


def _stream_id(text: str) -> str:
    """Return the id of a stream as it is stored. An id of another form is looked up too, and not found."""
    try:
        return str(UUID(text))
    except ValueError:
        return make_printable(text)
