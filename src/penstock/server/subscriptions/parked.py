"""The routes of parked keys: their events wait because one of them could not be processed."""

from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.times import format_time
from penstock.errors import BadParameter, ParkedNotFound
from penstock.server.auth import authorize_now, event_type_named, know, sees, sender_of
from penstock.server.http.requests import parse_json, read_body
from penstock.server.http.responses import json_response
from penstock.server.state import state_of, subscription_of
from penstock.server.subscriptions.subscriptions import BODY_BYTES_MAX
from penstock.storage.subscriptions import StoredParkedKey
from penstock.wire.groups import check_reason
from penstock.wire.query import Query, make_printable

EVENTS: int = 10
EVENTS_MAX: int = 100
_WHY: Final = 'say in the body why these events are not wanted, such as {"reason": "a test order"}; it is kept'


async def list_parked(request: Request) -> Response:
    """GET /subscriptions/{subscription}/parked: list the parked keys."""
    state, subscription_id = state_of(request), subscription_of(request)

    def list_all() -> Response:
        found = state.hub.subscriptions.parked_keys.list(subscription_id)
        know(request, [event_type_named(each.place[0]) for each in found])
        shown = [each if _reads(request, each) else each._replace(key=None) for each in found]
        return json_response({"items": list(map(_parked_object, shown))})

    return await state.run(list_all)


def _reads(request: Request, parked: StoredParkedKey) -> bool:
    """Return whether the sender may read the events of a parked key: the key is part of them."""
    return sees(request, event_type_named(parked.place[0]), "read")


async def show_parked(request: Request) -> Response:
    """GET /subscriptions/{subscription}/parked/{parked}: show a parked key and its first events."""
    state, subscription_id = state_of(request), subscription_of(request)
    parked_id = _parse_parked_id(request, subscription_id)
    limit = Query(request.scope["query_string"]).read_integer("limit", EVENTS, low=1, high=EVENTS_MAX)

    def show() -> Response:
        parked = state.hub.subscriptions.parked_keys.find(subscription_id, parked_id)
        authorize_now(request, "read", event_type_named(parked.place[0]))
        events = state.hub.subscriptions.parked_keys.read_events(parked, limit)
        items = [{"offset": str(offset), "event": msgspec.Raw(data)} for offset, data in events]
        return json_response(_parked_object(parked) | {"items": items})

    return await state.run(show)


async def retry_parked(request: Request) -> Response:
    """POST /subscriptions/{subscription}/parked/{parked}/retry: send the events of a parked key again."""
    state, subscription_id = state_of(request), subscription_of(request)
    parked_id = _parse_parked_id(request, subscription_id)

    def retry() -> None:
        state.hub.subscriptions.parked_keys.retry(subscription_id, parked_id, sender_of(request))

    await state.run(retry)
    return Response(status_code=204)


async def retry_all_parked(request: Request) -> Response:
    """POST /subscriptions/{subscription}/parked/retry: send the events of all parked keys again."""
    state, subscription_id = state_of(request), subscription_of(request)

    def retry() -> Response:
        count = state.hub.subscriptions.parked_keys.retry(subscription_id, by=sender_of(request))
        return json_response({"retried": count})

    return await state.run(retry)


async def skip_parked(request: Request) -> Response:
    """POST /subscriptions/{subscription}/parked/{parked}/skip: give up the events of a parked key."""
    state, subscription_id = state_of(request), subscription_of(request)
    parked_id = _parse_parked_id(request, subscription_id)
    body = await read_body(request, state.run, BODY_BYTES_MAX)

    def skip() -> None:
        given = parse_json(body) if body.strip() else None
        reason = given.get("reason") if isinstance(given, dict) else None
        if not isinstance(reason, str) or not reason.strip():
            raise BadParameter(_WHY, parameter="reason", value=None, allowed="a text that says why")
        check_reason(reason)
        state.hub.subscriptions.parked_keys.skip(subscription_id, parked_id, reason, sender_of(request))

    await state.run(skip)
    return Response(status_code=204)


def _parse_parked_id(request: Request, subscription_id: str) -> int:
    text = request.path_params["parked"]
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ParkedNotFound(subscription=subscription_id, parked=make_printable(text))
    return int(text)


def _parked_object(parked: StoredParkedKey) -> dict[str, Any]:
    name, number = parked.place
    return {
        "id": str(parked.id),
        "event_type": name,
        "partition": str(number),
        "key": parked.key,
        "attempts": parked.attempts,
        "parked_at": format_time(parked.parked_at),
        "state": "retrying" if parked.is_retried else "parked",
        "events": parked.events,
        "first_offset": str(parked.first),
        "last_offset": str(parked.last),
    }
