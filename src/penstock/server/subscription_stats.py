"""Tells how far a subscription's consumers have come (digest of Nakadi's contract, 5.9)."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.subscriptions.assignment import Place
from penstock.hub.hub import Hub
from penstock.hub.look import Look
from penstock.server.answers import json_response
from penstock.server.caller import subscription_asked
from penstock.storage.store import Head
from penstock.storage.subscriptions import Session, Slot, Subscription
from penstock.wire.query import Query

SECOND_US: Final = 1_000_000


async def show_stats(request: Request) -> Response:
    """GET /subscriptions/{subscription}/stats: show who has each partition, and what it has not committed yet."""
    state, subscription_id = await subscription_asked(request, "view")
    shows_lag = Query(request.scope["query_string"]).flag("show_time_lag")

    def stats() -> Response:
        hub, look = state.hub, state.hub.streams.look(subscription_id, counts=True)
        return json_response({"items": _items(hub, look, counts=True, shows_lag=shows_lag)})

    return await state.run(stats)


def statuses(hub: Hub, subscriptions: Sequence[Subscription]) -> Sequence[dict[str, Any]]:
    """Return the member of each that shows who has its partitions."""
    looks = hub.streams.glance(subscriptions)
    return [{"status": _items(hub, look, counts=False, shows_lag=False)} for look in looks]


def _items(hub: Hub, look: Look, *, counts: bool, shows_lag: bool) -> list[dict[str, Any]]:
    if not look.slots:
        return [_not_begun(hub, name) for name in look.subscription.definition["event_types"]]
    streams = look.present
    shown = {slot.place: _owned(slot, streams.get(slot.owner or "")) for slot in look.slots}
    if counts:
        for place, behind in _behind(hub, look.slots, shows_lag=shows_lag).items():
            shown[place] |= behind
        for parked in look.parked:
            own = shown[parked.place]
            own["parked_events"] = own.get("parked_events", 0) + parked.events
    ordered = sorted(look.slots, key=lambda slot: (slot.place[0], str(slot.place[1])))
    return [
        {"event_type": name, "partitions": [_in_order(shown[slot.place]) for slot in slots]}
        for name, slots in groupby(ordered, key=lambda slot: slot.place[0])
    ]


def _not_begun(hub: Hub, name: str) -> dict[str, Any]:
    numbers = sorted(map(str, range(hub.event_type(name).partition_count)))
    partitions = [{"partition": number, "state": "unassigned", "stream_id": ""} for number in numbers]
    return {"event_type": name, "partitions": partitions}


def _owned(slot: Slot, session: Session | None) -> dict[str, Any]:
    state = "unassigned" if session is None else "assigned" if slot.heir is None else "reassigning"
    found = {"partition": str(slot.place[1]), "state": state, "stream_id": session.id if session else ""}
    return found | ({"assignment_type": "direct" if session.wants else "auto"} if session else {})


def _behind(hub: Hub, slots: Sequence[Slot], *, shows_lag: bool) -> Mapping[Place, dict[str, Any]]:
    """Return of each partition how many events are not committed, and how old the first of them is."""
    heads: dict[Place, tuple[int, Head]] = {}
    for name in {slot.place[0] for slot in slots}:
        feed, found = hub.heads(name)
        heads |= {(name, number): (each, found[each]) for number, each in enumerate(feed.partition_ids)}
    behind = {slot.place: max(0, heads[slot.place][1].next_offset - slot.offset) for slot in slots}
    counted = {place: {"unconsumed_events": each} for place, each in behind.items()}
    if not shows_lag:
        return counted
    wanted = {heads[slot.place][0]: slot.offset for slot in slots if behind[slot.place]}
    ages = hub.streams.ages(wanted)
    return {
        place: each | {"consumer_lag_seconds": ages.get(heads[place][0], 0) // SECOND_US}
        for place, each in counted.items()
    }


def _in_order(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members in the order in which existing clients expect them."""
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
