"""The routes of subscriptions (create, show, change, delete) and of their statistics, in Nakadi's shapes.

Source: Nakadi's subscription API, https://nakadi.io/manual.html.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.fields import Definition
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.definition import SubscriptionSearch, complete_subscription
from penstock.core.times import format_time
from penstock.errors import BadParameter, HubUnavailable, InvalidSubscription, UnusablePosition
from penstock.hub.hub import Hub
from penstock.hub.subscriptions.sessions import SubscriptionSnapshot
from penstock.server.auth import (
    authorize_now,
    check_authorization,
    event_type_named,
    keep_seen,
    sender_of,
    subscription_with,
)
from penstock.server.http.requests import parse_json, read_body
from penstock.server.http.responses import json_response, link, page_links, warn_of_no_effect
from penstock.server.state import state_of, subscription_of
from penstock.storage.log.events import PartitionHead
from penstock.storage.subscriptions import StoredSession, StoredSlot, StoredSubscription
from penstock.wire.log.nakadi import OffsetExtent, parse_readable_place
from penstock.wire.query import Query, make_printable
from penstock.wire.subscriptions import GivenSubscriptionCursor, list_pages

SECOND_US: Final = 1_000_000


async def show_stats(request: Request) -> Response:
    """GET /subscriptions/{subscription}/stats: show the owner and the uncommitted events of each partition."""
    state, subscription_id = state_of(request), subscription_of(request)
    shows_lag = Query(request.scope["query_string"]).read_flag("show_time_lag")

    def count() -> Response:
        hub = state.hub
        snapshot = hub.subscriptions.sessions.snapshot(subscription_id, counts=True)
        return json_response({"items": _stats_items(hub, snapshot, counts=True, shows_lag=shows_lag)})

    return await state.run(count)


def list_statuses(hub: Hub, subscriptions: Sequence[StoredSubscription]) -> Sequence[dict[str, Any]]:
    """Return the member `status` of each subscription: the owners of its partitions."""
    snapshots = hub.subscriptions.sessions.snapshot_assignments(subscriptions)
    return [{"status": _stats_items(hub, each, counts=False, shows_lag=False)} for each in snapshots]


def _stats_items(hub: Hub, snapshot: SubscriptionSnapshot, *, counts: bool, shows_lag: bool) -> list[dict[str, Any]]:
    if not snapshot.slots:
        return [_unassigned_object(hub, name) for name in snapshot.subscription.definition["event_types"]]
    streams = snapshot.current_sessions
    shown = {slot.place: _partition_object(slot, streams.get(slot.owner or "")) for slot in snapshot.slots}
    if counts:
        for place, behind in _count_unconsumed(hub, snapshot.slots, shows_lag=shows_lag).items():
            shown[place] |= behind
        for parked in snapshot.parked:
            own = shown[parked.place]
            own["parked_events"] = own.get("parked_events", 0) + parked.events
    ordered = sorted(snapshot.slots, key=lambda slot: (slot.place[0], str(slot.place[1])))
    return [
        {"event_type": name, "partitions": [_order_members(shown[slot.place]) for slot in slots]}
        for name, slots in groupby(ordered, key=lambda slot: slot.place[0])
    ]


def _unassigned_object(hub: Hub, name: str) -> dict[str, Any]:
    numbers = sorted(map(str, range(hub.registry.load(name).partition_count)))
    partitions = [{"partition": number, "state": "unassigned", "stream_id": ""} for number in numbers]
    return {"event_type": name, "partitions": partitions}


def _partition_object(slot: StoredSlot, session: StoredSession | None) -> dict[str, Any]:
    state = "unassigned" if session is None else "assigned" if slot.successor is None else "reassigning"
    found = {"partition": str(slot.place[1]), "state": state, "stream_id": session.id if session else ""}
    return found | ({"assignment_type": "direct" if session.wants else "auto"} if session else {})


def _count_unconsumed(
    hub: Hub, slots: Sequence[StoredSlot], *, shows_lag: bool
) -> Mapping[FeedPartition, dict[str, Any]]:
    """Return the number of uncommitted events of each partition, and the age of the oldest."""
    heads: dict[FeedPartition, tuple[int, PartitionHead]] = {}
    for name in {slot.place[0] for slot in slots}:
        feed, found = hub.log.find_heads(name)
        heads |= {(name, number): (each, found[each]) for number, each in enumerate(feed.partition_ids)}
    behind = {slot.place: max(0, heads[slot.place][1].next_offset - slot.offset) for slot in slots}
    count_events = {place: {"unconsumed_events": each} for place, each in behind.items()}
    if not shows_lag:
        return count_events
    wanted = {heads[slot.place][0]: slot.offset for slot in slots if behind[slot.place]}
    ages = hub.subscriptions.find_ages(wanted)
    return {
        place: each | {"consumer_lag_seconds": ages.get(heads[place][0], 0) // SECOND_US}
        for place, each in count_events.items()
    }


def _order_members(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members in the order that existing clients expect."""
    return {name: shown[name] for name in _MEMBERS if name in shown}


_MEMBERS: Final = (
    "partition",
    "state",
    "unconsumed_events",
    "parked_events",
    "consumer_lag_seconds",
    "stream_id",
    "assignment_type",
)


BODY_BYTES_MAX: Final = 1 << 20
LIMIT: Final = 20
LIMIT_MAX: Final = 1_000
NEW: Final = "new"
"""The token of the first page of a list."""
_ID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The form of all other tokens: the id of a subscription, which may have been deleted since."""
CREATION_OFF: Final = "disable_subscription_creation"


async def create_subscription(request: Request) -> Response:
    """POST /subscriptions: create a subscription, or show the existing one."""
    state = state_of(request)
    body = await read_body(request, state.run, BODY_BYTES_MAX)

    def create() -> Response:
        hub, given = state.hub, parse_json(body)
        definition = complete_subscription(given)
        authorize_now(request, "view", *map(event_type_named, definition["event_types"]))
        found, created = hub.subscriptions.find_same(definition), False
        if found is None:
            _check_creation(hub)
            check_authorization(request, given, None, InvalidSubscription)
            hub.subscriptions.load_sources(definition)
            found, created = hub.subscriptions.create(definition, _find_starts(hub, definition), by=sender_of(request))
        if not created:
            authorize_now(request, "view", subscription_with(found.id))
        answer = json_response(subscription_object(found), 201 if created else 200)
        place = link(request, f"/subscriptions/{found.id}")
        answer.headers["Location"] = place
        if created:
            answer.headers["Content-Location"] = place
        authenticates = hub.admin.permissions.is_enforced
        return warn_of_no_effect(answer, f"subscription {found.id}", given, authenticates=authenticates)

    return await state.run(create)


async def list_subscriptions(request: Request) -> Response:
    """GET /subscriptions: list subscriptions, newest first, or by token in the order of their ids."""
    state = state_of(request)
    query = Query(request.scope["query_string"])
    search, shows = _parse_search(query), query.read_flag("show_status")
    limit = query.read_integer("limit", LIMIT, low=1, high=LIMIT_MAX)
    offset = query.read_integer("offset", 0, low=0, high=10**9)
    token = query.find_text("token")
    if not (token in (None, NEW) or _ID.fullmatch(token)):
        allowed = f"{NEW}, or what the link to the next page has"
        raise BadParameter(parameter="token", value=make_printable(token), allowed=allowed)
    after = token if token not in (None, NEW) else ""

    def list_page() -> Response:
        hub = state.hub
        # The database does not know whom the sender may see: where that matters, pages begin at the newest one.
        passed = offset if token is None and hub.admin.permissions.is_enforced else 0

        def read(found: Sequence[StoredSubscription], count: int) -> Sequence[StoredSubscription]:
            if token is None:
                return hub.subscriptions.list_newest(search, limit=count, offset=offset - passed + len(found))
            return hub.subscriptions.list_after(search, id=found[-1].id if found else after, limit=count)

        seen = _list_seen(request, read, passed + limit)[passed:]
        items = list(map(subscription_object, seen))
        if shows:
            items = [item | status for item, status in zip(items, list_statuses(hub, seen), strict=True)]
        last = seen[-1].id if len(seen) == limit else None
        pages = list_pages(search, shows=shows, limit=limit, offset=offset, token=token, last=last)
        return json_response({"items": items, "_links": page_links(request, "/subscriptions", pages)})

    return await state.run(list_page)


def _list_seen(
    request: Request, read: Callable[[Sequence[StoredSubscription], int], Sequence[StoredSubscription]], wanted: int
) -> Sequence[StoredSubscription]:
    """Return the first *wanted* subscriptions that the sender may see; call it in a worker thread.

    *read* returns up to as many as asked for after those that it is given. One that somebody has subscribed between two
    calls may move another into both: it is returned once.
    """
    found: list[StoredSubscription] = []
    seen: dict[str, StoredSubscription] = {}
    count = min(wanted, LIMIT_MAX)
    while len(seen) < wanted:
        more = read(found, count)
        found += more
        seen |= {each.id: each for each in keep_seen(request, more, lambda each: subscription_with(each.id))}
        if len(more) < count:
            break
    return list(seen.values())[:wanted]


async def show_subscription(request: Request) -> Response:
    """GET /subscriptions/{subscription}: show a subscription."""
    state, subscription_id = state_of(request), subscription_of(request)
    return await state.run(lambda: json_response(subscription_object(state.hub.subscriptions.find(subscription_id))))


async def replace_subscription(request: Request) -> Response:
    """PUT /subscriptions/{subscription}: change the authorization, annotations and labels of a subscription."""
    state, subscription_id = state_of(request), subscription_of(request)
    body = await read_body(request, state.run, BODY_BYTES_MAX)

    def replace() -> Response:
        given = parse_json(body)
        before = state.hub.subscriptions.find(subscription_id).definition["authorization"]
        check_authorization(request, given, before, InvalidSubscription)
        check = state.hub.admin.settings.check_changes
        state.hub.subscriptions.replace(subscription_id, given, check, by=sender_of(request))
        authenticates = state.hub.admin.permissions.is_enforced
        answer = Response(status_code=204)
        return warn_of_no_effect(answer, f"subscription {subscription_id}", given, authenticates=authenticates)

    return await state.run(replace)


async def delete_subscription(request: Request) -> Response:
    """DELETE /subscriptions/{subscription}: drop a subscription, and end its streams."""
    state, subscription_id = state_of(request), subscription_of(request)

    def delete() -> None:
        state.hub.admin.settings.check_changes()
        state.hub.subscriptions.delete(subscription_id, sender_of(request))

    await state.run(delete)
    return Response(status_code=204)


def subscription_object(subscription: StoredSubscription) -> dict[str, Any]:
    """Return a subscription in Nakadi's shape."""
    return subscription.definition | {
        "id": subscription.id,
        "created_at": format_time(subscription.created_at),
        "updated_at": format_time(subscription.updated_at),
    }


def find_extents(hub: Hub, name: str) -> Sequence[OffsetExtent]:
    """Return the extents of an event type's partitions, with the rows of the outbox.

    Raises:
        EventTypeNotFound: there is none.
    """
    feed, heads = hub.log.find_heads(name)
    ends = [heads[partition_id] for partition_id in feed.partition_ids]
    return [OffsetExtent(feed.epoch, end.floor, end.next_offset) for end in ends]


def _check_creation(hub: Hub) -> None:
    if hub.admin.settings.is_on(CREATION_OFF):
        detail = f"subscriptions cannot be created now: the feature {CREATION_OFF} is on"
        raise HubUnavailable.of("changes-switched-off", detail, retry_after=30)
    hub.admin.settings.check_changes()


def _find_starts(hub: Hub, definition: Definition) -> Mapping[FeedPartition, int] | None:
    """Return the first offsets wanted if a subscription begins at cursors, else None.

    Raises:
        InvalidSubscription: a partition has no cursor, or two.
        UnusablePosition: a cursor is malformed, or some events after it are gone.
    """
    if definition["read_from"] != "cursors":
        return None
    extents = {name: find_extents(hub, name) for name in definition["event_types"]}
    found: dict[FeedPartition, int] = {}
    for at, each in enumerate(definition["initial_cursors"]):
        given = GivenSubscriptionCursor(each["partition"], each["offset"], event_type=each["event_type"])
        surplus = f"partition {make_printable(each['partition'])} of {each['event_type']!r}"
        if each["event_type"] not in extents:
            raise _coverage_error(f"{surplus} is not one of them")
        try:
            place = parse_readable_place(given, extents[each["event_type"]], f"initial_cursors[{at}]")
        except UnusablePosition as error:
            if error.offset is None:
                raise _coverage_error(f"{surplus} is not one of them") from error
            raise
        if (each["event_type"], place.partition) in found:
            raise _coverage_error(f"{surplus} has two")
        found[each["event_type"], place.partition] = place.position
    for name, partitions in extents.items():
        for number in range(len(partitions)):
            if (name, number) not in found:
                raise _coverage_error(f"partition {number} of {name!r} has none")
    return found


def _coverage_error(why: str) -> InvalidSubscription:
    detail = "initial_cursors should contain cursors for all partitions of subscription"
    reason = f"must have one cursor for each partition of each event type, and no other: {why}"
    return InvalidSubscription(detail, field="initial_cursors", reason=reason)


def _parse_search(query: Query) -> SubscriptionSearch:
    names = [name for text in query.find_texts("event_type") for name in text.split(",")]
    reader = query.find_text("reader")
    data_type, colon, value = (reader or "").partition(":")
    if reader is not None and not (data_type and colon and value):
        allowed = "a data type and a value, such as service:billing"
        raise BadParameter(parameter="reader", value=make_printable(reader), allowed=allowed)
    owner = query.find_text("owning_application")
    given = [("event_type", name) for name in names]
    for parameter, text in (*given, ("reader", reader), ("owning_application", owner)):
        _check_printable(parameter, text)
    return SubscriptionSearch(owner, tuple(names), (data_type, value) if reader is not None else None)


def _check_printable(parameter: str, text: str | None) -> None:
    """Raise BadParameter for a text that is empty or not printable: nothing has such a name."""
    if text is not None and not (text and text.isprintable()):
        raise BadParameter(parameter=parameter, value=make_printable(text), allowed="printable text")
