"""The routes of consumer groups: their positions, lag, resets, and history."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.access import Claim, Resource
from penstock.core.group_names import is_group_name, is_path_name
from penstock.core.groups.groups import MICROSECONDS, SUBSCRIPTION, GroupProgress, decode_tranche
from penstock.core.groups.leases import MemberTranches
from penstock.core.registry.definition import is_name
from penstock.core.times import format_time
from penstock.errors import AccessDenied, BadParameter, EventTypeNotFound, GroupNotFound, ParkedNotFound
from penstock.hub.admin.lag_history import LagSample
from penstock.hub.groups.groups import GroupLag, MovedPosition
from penstock.hub.groups.members import Member
from penstock.server.auth import (
    admit,
    authorize_now,
    claim_of,
    event_type_named,
    keep_seen,
    know,
    sees,
    sender_of,
    subscription_with,
    with_claim,
)
from penstock.server.http.requests import parse_json, read_body
from penstock.server.http.responses import Pairs, json_response, page_links
from penstock.server.state import state_of
from penstock.storage.groups import GroupFilter, GroupSummary, Position, PositionChange, StoredParkedStream
from penstock.wire import groups as wire
from penstock.wire.query import Query, make_printable

BODY_BYTES_MAX: Final = 1024 * 1024
MEMBER_CHARS_MAX: Final = 100
COMMIT_BYTES_MAX: Final = 8 * 1024 * 1024
"""With the parked streams of a processor."""
_WHY: Final = 'say in the body why these events are not wanted, such as {"reason": "a test order"}; it is kept'


async def list_groups(request: Request) -> Response:
    """GET /groups: list consumer groups with their lag."""
    state = state_of(request)
    query = Query(request.scope["query_string"])
    event_type = query.find_text("event_type")
    if event_type == "":
        raise BadParameter(parameter="event_type", value="", allowed="the name of an event type")
    if event_type is not None and not is_name(event_type):
        raise EventTypeNotFound(event_type=make_printable(event_type))
    limit = query.read_integer("limit", 100, low=1, high=wire.GROUPS_MAX)
    which = GroupFilter(event_type, wire.parse_kind(query), wire.parse_after(query))
    if event_type is not None:
        await admit(request.scope, "view", event_type_named(event_type), may_be_missing=True)
    found = await state.run(lambda: _list_seen(request, which, limit + 1))
    sources = sorted({source for each in found[:limit] for source in each.sources})
    await state.settle_some(sources)

    def list_page() -> Response:
        items = [_group_object(request, each) for each in state.hub.groups.measure(found[:limit])]
        asked = {"event_type": event_type, "kind": which.kind, "after": found[limit - 1].name} if found[limit:] else {}
        return json_response({"items": items, "_links": page_links(request, "/groups", _next_page(asked, limit))})

    return await state.run(list_page)


async def show_group(request: Request) -> Response:
    """GET /groups/{group}: show a consumer group and its position in each partition."""
    state, name = state_of(request), _group_of(request)
    group = await state.run(lambda: _find_seen(request, name))

    def show() -> Response:
        [known] = state.hub.groups.measure([group])
        seen = [each for each in known.standings if sees(request, event_type_named(each.source))]
        positions = [_position_object(each, known.at) for each in seen]
        shown = {field: getattr(_group_object(request, known), field) for field in wire.ConsumerGroup.__struct_fields__}
        members = [_member_object(request, each) for each in state.hub.groups.members.list(name)]
        return json_response(wire.ConsumerGroupDetails(**shown, positions=positions, members=members))

    return await state.run_settled(group.sources, show)


async def renew_member(request: Request) -> Response:
    """POST /groups/{group}/members/{member}: extend the lease of a member, and tell which partitions it has."""
    state, name, member = state_of(request), _group_of(request), _member_of(request)
    body = await read_body(request, state.run, BODY_BYTES_MAX)

    def renew() -> Response:
        given = wire.parse_renewal(parse_json(body))
        _authorize_tranches(request, given.tranches)
        held = state.hub.groups.members.renew(
            name,
            member,
            given.tranches,
            given.lease_seconds,
            is_leaving=given.leaving,
            by=claim_of(request, overrides=False),
        )
        return json_response(_held_object(held))

    return await state.run(renew)


async def release_member(request: Request) -> Response:
    """POST /groups/{group}/members/{member}/release: let others have partitions of a member."""
    state, name, member = state_of(request), _group_of(request), _member_of(request)
    body = await read_body(request, state.run, BODY_BYTES_MAX)

    def release() -> Response:
        tranches = wire.parse_release(parse_json(body))
        claim = claim_of(request, overrides=False)
        return json_response(_held_object(state.hub.groups.members.release(name, member, tranches, claim)))

    return await state.run(release)


async def remove_member(request: Request) -> Response:
    """DELETE /groups/{group}/members/{member}: let others have all partitions of a member, and forget it."""
    state, name, member = state_of(request), _group_of(request), _member_of(request)

    def remove() -> None:
        group, sender = _find_seen(request, name), sender_of(request)
        with_claim(request, group.sources, lambda claim: state.hub.groups.members.remove(name, member, claim, sender))

    await state.run(remove)
    return Response(status_code=204)


async def commit_positions(request: Request) -> Response:
    """POST /groups/{group}/positions: commit positions, all or none, if each is the expected one."""
    state = state_of(request)
    name: str = request.path_params["group"]
    body = await read_body(request, state.run, COMMIT_BYTES_MAX)

    def commit() -> Response:
        given = wire.parse_commit(parse_json(body))
        event_types = sorted({each.event_type for each in given.commits} | given.parked.sources)
        authorize_now(request, "read", *map(event_type_named, event_types))
        claim = claim_of(request, overrides=False)

        def store(claim: Claim | None) -> Sequence[Position]:
            return state.hub.groups.commit(
                name, given.kind, given.commits, claim, parked=given.parked, kept_at=given.kept_at
            )

        try:
            places = store(claim)
        except AccessDenied as denied:
            try:
                sources = state.hub.groups.find(name).sources
            except GroupNotFound:  # The name is reserved.
                raise denied from None
            places = with_claim(request, {*event_types, *sources}, store)
        return json_response({"items": [_committed_object(each) for each in places]})

    return await state.run(commit)


async def reset_positions(request: Request) -> Response:
    """PATCH /groups/{group}/positions: move positions, forward or back, to an offset, a time, or an end."""
    state, name = state_of(request), _group_of(request)
    body = await read_body(request, state.run, BODY_BYTES_MAX)
    given = await state.run(lambda: wire.parse_reset(parse_json(body)))
    group = await state.run(lambda: _find_seen(request, name))
    named = {each.event_type for each in given.resets if each.event_type is not None and is_name(each.event_type)}

    def reset() -> Response:
        _authorize_reset(request, named)
        sender = sender_of(request)
        moved = with_claim(
            request,
            group.sources,
            lambda claim: state.hub.groups.reset(
                name, given.resets, given.reason, dry_run=given.dry_run, by=claim, sender=sender
            ),
        )
        return json_response({"items": [_reset_object(each) for each in moved], "dry_run": given.dry_run})

    return await state.run_settled(sorted(named) or group.sources, reset)


def _authorize_reset(request: Request, event_types: Iterable[str]) -> None:
    """Raise AccessDenied unless the sender may read, or administers, each event type in which a group is to move."""
    for each in map(event_type_named, sorted(event_types)):
        try:
            authorize_now(request, "admin", each)
        except AccessDenied:
            authorize_now(request, "read", each)


async def show_history(request: Request) -> Response:
    """GET /groups/{group}/history: list interventions in a consumer group, newest first."""
    state, name = state_of(request), _group_of(request)
    query = Query(request.scope["query_string"])
    limit = query.read_integer("limit", 100, low=1, high=wire.GROUPS_MAX)
    after = query.read_integer("after", 0, low=1, high=10**18 - 1) or None

    def list_page() -> Response:
        _find_seen(request, name)
        seen = _list_seen_interventions(request, name, after, limit + 1)
        asked = {"after": str(seen[limit - 1].id)} if seen[limit:] else {}
        links = page_links(request, f"/groups/{quote(name, safe='')}/history", _next_page(asked, limit))
        return json_response({"items": list(map(_intervention_object, seen[:limit])), "_links": links})

    return await state.run(list_page)


async def show_lag(request: Request) -> Response:
    """GET /groups/{group}/lag: list the gap and lag of a consumer group over the last hours, oldest first."""
    state, name = state_of(request), _group_of(request)

    def show() -> Response:
        _find_seen(request, name)
        history = state.hub.admin.database.lag_history
        return json_response({"items": list(map(_lag_object, history.list(name))), "since": format_time(history.since)})

    return await state.run(show)


async def list_parked_streams(request: Request) -> Response:
    """GET /groups/{group}/parked: list the streams that a processor has parked, oldest first."""
    state, name = state_of(request), _group_of(request)
    query = Query(request.scope["query_string"])
    limit = query.read_integer("limit", 100, low=1, high=wire.GROUPS_MAX)
    after = query.read_integer("after", 0, low=0, high=10**18 - 1)
    requested = query.find_text("requested")
    if requested not in (None, "true", "false"):
        raise BadParameter(parameter="requested", value=make_printable(requested), allowed="true or false")

    def list_page() -> Response:
        _find_seen(request, name)
        seen = _list_seen_parked(request, name, after, limit + 1, requested=requested == "true")
        asked = {"requested": requested, "after": str(seen[limit - 1].id)} if seen[limit:] else {}
        links = page_links(request, f"/groups/{quote(name, safe='')}/parked", _next_page(asked, limit))
        return json_response({"items": [_parked_object(request, each) for each in seen[:limit]], "_links": links})

    return await state.run(list_page)


async def retry_parked_stream(request: Request) -> Response:
    """POST /groups/{group}/parked/{parked}/retry: have a processor try a parked stream again."""
    state, name = state_of(request), _group_of(request)
    parked_id = _parse_parked_id(request, name)

    def retry() -> None:
        group, sender = _find_seen(request, name), sender_of(request)
        with_claim(request, group.sources, lambda claim: state.hub.groups.parked.retry(name, parked_id, claim, sender))

    await state.run(retry)
    return Response(status_code=204)


async def retry_parked_streams(request: Request) -> Response:
    """POST /groups/{group}/parked/retry: have a processor try all parked streams again."""
    state, name = state_of(request), _group_of(request)

    def retry() -> Response:
        group, sender = _find_seen(request, name), sender_of(request)
        count = with_claim(
            request, group.sources, lambda claim: state.hub.groups.parked.retry(name, None, claim, sender)
        )
        return json_response({"retried": count})

    return await state.run(retry)


async def skip_parked_stream(request: Request) -> Response:
    """POST /groups/{group}/parked/{parked}/skip: have a processor pass over what waits of a parked stream."""
    state, name = state_of(request), _group_of(request)
    parked_id = _parse_parked_id(request, name)
    body = await read_body(request, state.run, BODY_BYTES_MAX)

    def skip() -> None:
        given = parse_json(body) if body.strip() else None
        reason = given.get("reason") if isinstance(given, dict) else None
        if not isinstance(reason, str) or not reason.strip():
            raise BadParameter(_WHY, parameter="reason", value=None, allowed="a text that says why")
        wire.check_reason(reason)
        group, sender = _find_seen(request, name), sender_of(request)
        with_claim(
            request, group.sources, lambda claim: state.hub.groups.parked.skip(name, parked_id, reason, claim, sender)
        )

    await state.run(skip)
    return Response(status_code=204)


async def forget_group(request: Request) -> Response:
    """DELETE /groups/{group}: forget a consumer group with its positions."""
    state, name = state_of(request), _group_of(request)

    def delete() -> None:
        group = _find_seen(request, name)
        sender = sender_of(request)
        with_claim(request, group.sources, lambda claim: state.hub.groups.delete(name, claim, sender))

    await state.run(delete)
    return Response(status_code=204)


def _find_seen(request: Request, name: str) -> GroupSummary:
    """Return a consumer group, in a worker thread.

    Raises:
        GroupNotFound: there is none.
        AccessDenied: the sender may look at none of its event types.
    """
    group = state_of(request).hub.groups.find(name)
    know(request, _resources_of(group))
    if not sees_group(request, group):
        authorize_now(request, "view", *_resources_of(group))
    return group


def _list_seen(request: Request, which: GroupFilter, limit: int) -> list[GroupSummary]:
    """Return up to *limit* groups that the sender may look at, sorted by name."""
    seen: list[GroupSummary] = []
    while len(seen) < limit:
        found = state_of(request).hub.groups.list(which, limit)
        know(request, [resource for each in found for resource in _resources_of(each)])
        seen += [each for each in found if sees_group(request, each)]
        if len(found) < limit:
            break
        which = which._replace(after=found[-1].name)
    return seen[:limit]


def _list_seen_interventions(request: Request, name: str, before: int | None, limit: int) -> list[PositionChange]:
    """Return up to *limit* interventions in event types that the sender may look at, newest first."""
    seen: list[PositionChange] = []
    while len(seen) < limit:
        found = state_of(request).hub.groups.list_interventions(name, before=before, limit=limit)
        seen += keep_seen(request, found, lambda each: event_type_named(each.source))
        if len(found) < limit:
            break
        before = found[-1].id
    return seen[:limit]


def _list_seen_parked(
    request: Request, name: str, after: int, limit: int, *, requested: bool
) -> list[StoredParkedStream]:
    """Return up to *limit* parked streams in event types that the sender may look at, oldest first."""
    seen: list[StoredParkedStream] = []
    while len(seen) < limit:
        found = state_of(request).hub.groups.parked.list(name, after=after, limit=limit, requested=requested)
        seen += keep_seen(request, found, lambda each: event_type_named(each.parked.source))
        if len(found) < limit:
            break
        after = found[-1].id
    return seen[:limit]


def _parse_parked_id(request: Request, group: str) -> int:
    text = request.path_params["parked"]
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ParkedNotFound.of("parked-of-group-not-found", group=group, parked=make_printable(text))
    return int(text)


def _member_of(request: Request) -> str:
    """Return the member that the path names.

    Raises:
        BadParameter: no member can have that name.
    """
    name: str = request.path_params["member"]
    if not is_path_name(name) or len(name) > MEMBER_CHARS_MAX or "/" in name:
        allowed = f"1 to {MEMBER_CHARS_MAX} printable characters of ASCII without /, but neither . nor .. alone"
        raise BadParameter(parameter="member", value=make_printable(name)[:MEMBER_CHARS_MAX], allowed=allowed)
    return name


def _authorize_tranches(request: Request, tranches: Iterable[str]) -> None:
    event_types = sorted({decode_tranche(each)[0] for each in tranches})
    authorize_now(request, "read", *map(event_type_named, event_types))


def _resources_of(group: GroupSummary) -> Sequence[Resource]:
    return [subscription_with(group.name)] if group.kind == SUBSCRIPTION else list(map(event_type_named, group.sources))


def sees_group(request: Request, group: GroupSummary) -> bool:
    """Return whether the cached rights let the sender see *group*: one of its event types, or the subscription.

    Administrators of one of a subscription's event types see it, too: they may move and delete it.
    """
    if group.kind == SUBSCRIPTION and any(sees(request, event_type_named(each), "admin") for each in group.sources):
        return True
    resources = _resources_of(group)
    return not resources or any(sees(request, each) for each in resources)


def _group_of(request: Request) -> str:
    """Return the consumer group that the path names.

    Raises:
        GroupNotFound: no group can have that name.
    """
    name: str = request.path_params["group"]
    if not is_group_name(name):
        raise GroupNotFound(group=make_printable(name))
    return name


def _next_page(asked: Mapping[str, str | None], limit: int) -> dict[str, Pairs]:
    given = [(name, value) for name, value in asked.items() if value is not None]
    return {"next": [*given, ("limit", limit)]} if given else {}


def _group_object(request: Request, known: GroupLag) -> wire.ConsumerGroup:
    group, behind = known.listed, known.behind
    definition = group.definition or {}
    return wire.ConsumerGroup(
        name=group.name,
        kind=group.kind,
        event_types=[each for each in group.sources if sees(request, event_type_named(each))],
        gap=behind.gap if behind else None,
        lag_seconds=_seconds(behind.lag) if behind else None,
        offset_sum=behind.offset_sum if behind else None,
        owning_application=definition.get("owning_application"),
        consumer_group=definition.get("consumer_group"),
        kept_at=group.kept_at,
    )


def _held_object(held: MemberTranches) -> wire.HeldTranches:
    return wire.HeldTranches(*map(sorted, held))


def _member_object(request: Request, found: Member) -> wire.GroupMember:
    return wire.GroupMember(
        member=found.name,
        tranches=[each for each in found.tranches if sees(request, event_type_named(decode_tranche(each)[0]))],
        leaving=found.is_leaving,
        expires_at=format_time(found.expires_at),
    )


def _position_object(found: GroupProgress, now: int) -> wire.GroupPosition:
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
        updated_at=format_time(found.updated_at),
    )


def _seconds(microseconds: int) -> float:
    return round(microseconds / MICROSECONDS, 3)


def _committed_object(place: Position) -> wire.CommittedPosition:
    return wire.CommittedPosition(place.source, place.slice, place.tranche, place.epoch, place.offset)


def _reset_object(moved: MovedPosition) -> wire.ResetPosition:
    source, part, tranche, epoch, offset = moved.place
    head = moved.extent.next_offset
    return wire.ResetPosition(source, part, tranche, epoch, moved.came_from, offset, head, head - offset)


def _parked_object(request: Request, found: StoredParkedStream) -> wire.GroupParkedStream:
    parked = found.parked
    reads = sees(request, event_type_named(parked.source), "read")  # Else its name and failure are not shown.
    return wire.GroupParkedStream(
        id=str(found.id),
        event_type=parked.source,
        partition=parked.tranche,
        stream=parked.stream if reads else None,
        index=parked.first,
        next=parked.next,
        events=parked.events,
        attempts=parked.attempts,
        tag=parked.tag,
        detail=parked.detail if reads else None,
        since=parked.since,
        parked_at=format_time(found.parked_at),
        request=found.request,
    )


def _lag_object(found: LagSample) -> wire.GroupLagSample:
    return wire.GroupLagSample(format_time(found.at), found.gap, _seconds(found.lag))


def _intervention_object(done: PositionChange) -> wire.GroupIntervention:
    return wire.GroupIntervention(
        done.id,
        format_time(done.at),
        done.kind,
        done.source,
        done.slice,
        done.tranche,
        done.epoch,
        done.came_from,
        done.went_to,
        done.reason,
    )
