"""The routes of consumer groups: who reads what, how far each is behind, and what moves them."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.groups import MICROSECONDS, GroupProgress, is_group_name
from penstock.core.registry.definition import is_name
from penstock.errors import BadParameter, EventTypeNotFound, GroupNotFound
from penstock.hub.background import rfc3339
from penstock.hub.groups import GroupLag, PositionReset
from penstock.server.auth import authorize, event_type_named
from penstock.server.http.links import Pairs, page_links
from penstock.server.http.requests import parsed, read_body
from penstock.server.http.responses import json_response
from penstock.server.log.pages import settle, settle_some
from penstock.server.state import State, state_of
from penstock.storage.groups import GroupFilter, Position, PositionChange
from penstock.wire import groups as wire
from penstock.wire.query import Query, printable

BODY_BYTES_MAX: Final = 1024 * 1024


async def list_groups(request: Request) -> Response:
    """GET /groups: list the consumer groups that the hub keeps positions for, and how far each is behind."""
    state = state_of(request)
    query = Query(request.scope["query_string"])
    event_type = query.text("event_type")
    if event_type == "":
        raise BadParameter(parameter="event_type", value="", allowed="the name of an event type")
    if event_type is not None and not is_name(event_type):
        raise EventTypeNotFound(event_type=printable(event_type))
    limit = query.integer("limit", 100, low=1, high=wire.GROUPS_MAX)
    which = GroupFilter(event_type, wire.parse_kind(query), wire.parse_after(query))
    if event_type is not None:
        authorize(request, "view", event_type_named(event_type))
    found = await state.run(lambda: state.hub.groups.list(which, limit + 1))
    sources = sorted({source for each in found[:limit] for source in each.sources})
    if sources:
        await settle_some(state.hub, await state.run(lambda: state.hub.log.waiting(sources)))

    def listed() -> Response:
        items = [_shown(each) for each in state.hub.groups.look(found[:limit])]
        asked = {"event_type": event_type, "kind": which.kind, "after": found[limit - 1].name} if found[limit:] else {}
        return json_response({"items": items, "_links": page_links(request, "/groups", _next(asked, limit))})

    return await state.run(listed)


async def show_group(request: Request) -> Response:
    """GET /groups/{group}: show a consumer group and where it stands in each partition."""
    state, name = state_of(request), _group_of(request)
    group = await state.run(lambda: state.hub.groups.find(name))
    await _settle(state, group.sources)

    def found() -> Response:
        [known] = state.hub.groups.look([group])
        positions = [_position(each, known.at) for each in known.standings]
        shown = {field: getattr(_shown(known), field) for field in wire.ConsumerGroup.__struct_fields__}
        return json_response(wire.ConsumerGroupDetails(**shown, positions=positions))

    return await state.run(found)


async def commit_positions(request: Request) -> Response:
    """POST /groups/{group}/positions: commit positions, all or none, where nothing else stands there than expected."""
    state = state_of(request)
    name: str = request.path_params["group"]
    body = await read_body(request, state, BODY_BYTES_MAX)

    def committed() -> Response:
        given = wire.parse_commit(parsed(body))
        for event_type in sorted({each.event_type for each in given.commits}):
            authorize(request, "read", event_type_named(event_type))
        places = state.hub.groups.commit(name, given.kind, given.commits)
        return json_response({"items": [_committed(each) for each in places]})

    return await state.run(committed)


async def reset_positions(request: Request) -> Response:
    """PATCH /groups/{group}/positions: move positions, forward or back, to an offset, a time, or an end."""
    state, name = state_of(request), _group_of(request)
    body = await read_body(request, state, BODY_BYTES_MAX)
    given = await state.run(lambda: wire.parse_reset(parsed(body)))
    group = await state.run(lambda: state.hub.groups.find(name))
    named = {each.event_type for each in given.resets if each.event_type is not None and is_name(each.event_type)}
    await _settle(state, sorted(named) or group.sources)

    def done() -> Response:
        moved = state.hub.groups.reset(name, given.resets, given.reason, dry_run=given.dry_run)
        return json_response({"items": [_reset(each) for each in moved], "dry_run": given.dry_run})

    return await state.run(done)


async def show_history(request: Request) -> Response:
    """GET /groups/{group}/history: list what was done to a consumer group over its head, the newest first."""
    state, name = state_of(request), _group_of(request)
    query = Query(request.scope["query_string"])
    limit = query.integer("limit", 100, low=1, high=wire.GROUPS_MAX)
    after = query.integer("after", 0, low=1, high=10**18 - 1) or None

    def listed() -> Response:
        found = state.hub.groups.history(name, before=after, limit=limit + 1)
        asked = {"after": str(found[limit - 1].id)} if found[limit:] else {}
        links = page_links(request, f"/groups/{quote(name, safe='')}/history", _next(asked, limit))
        return json_response({"items": [_intervention(each) for each in found[:limit]], "_links": links})

    return await state.run(listed)


async def forget_group(request: Request) -> Response:
    """DELETE /groups/{group}: forget a consumer group with its positions."""
    state, name = state_of(request), _group_of(request)
    await state.run(lambda: state.hub.groups.delete(name))
    return Response(status_code=204)


def _group_of(request: Request) -> str:
    """Return the consumer group that the path names.

    Raises:
        GroupNotFound: no group can have that name.
    """
    name: str = request.path_params["group"]
    if not is_group_name(name):
        raise GroupNotFound(group=printable(name))
    return name


async def _settle(state: State, sources: Sequence[str]) -> None:
    if sources:
        for name in await state.run(lambda: state.hub.log.waiting(sources)):
            await settle(state.hub, name)


def _next(asked: Mapping[str, str | None], limit: int) -> dict[str, Pairs]:
    given = [(name, value) for name, value in asked.items() if value is not None]
    return {"next": [*given, ("limit", limit)]} if given else {}


def _shown(known: GroupLag) -> wire.ConsumerGroup:
    group, behind = known.listed, known.behind
    definition = group.definition or {}
    return wire.ConsumerGroup(
        name=group.name,
        kind=group.kind,
        event_types=list(group.sources),
        gap=behind.gap if behind else None,
        lag_seconds=_seconds(behind.lag) if behind else None,
        owning_application=definition.get("owning_application"),
        consumer_group=definition.get("consumer_group"),
    )


def _position(found: GroupProgress, now: int) -> wire.GroupPosition:
    return wire.GroupPosition(
        event_type=found.source,
        slice=found.slice,
        partition=found.tranche,
        epoch=found.epoch,
        offset=found.offset,
        head=found.extent.next_offset if found.extent else None,
        gap=found.gap,
        lag_seconds=_seconds(found.lag(now)),
        lost=found.lost,
        reason=found.stuck_reason,
        updated_at=rfc3339(found.updated_at),
    )


def _seconds(microseconds: int) -> float:
    return round(microseconds / MICROSECONDS, 3)


def _committed(place: Position) -> wire.CommittedPosition:
    return wire.CommittedPosition(place.source, place.slice, place.tranche, place.epoch, place.offset)


def _reset(moved: PositionReset) -> wire.ResetPosition:
    source, part, tranche, epoch, offset = moved.place
    head = moved.extent.next_offset
    return wire.ResetPosition(source, part, tranche, epoch, moved.came_from, offset, head, head - offset)


def _intervention(done: PositionChange) -> wire.GroupIntervention:
    return wire.GroupIntervention(
        done.id,
        rfc3339(done.at),
        done.kind,
        done.source,
        done.slice,
        done.tranche,
        done.epoch,
        done.came_from,
        done.went_to,
        done.reason,
    )
