"""The routes of erasures: erase the events of a key, and report the progress."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.events.encoding import describe_mismatch
from penstock.core.times import format_time
from penstock.errors import BadParameter
from penstock.server.auth import sender_of
from penstock.server.http.requests import parse_json, read_body
from penstock.server.http.responses import json_response
from penstock.server.state import event_type_of, state_of
from penstock.storage.log.erasure import StoredErasure

BODY_BYTES_MAX: Final = 64 << 10


async def erase(request: Request) -> Response:
    """POST /event-types/{event_type}/erasures: erase the events of a key."""
    state, name = state_of(request), event_type_of(request)
    body = await read_body(request, state.run, BODY_BYTES_MAX)

    def start() -> StoredErasure:
        return state.hub.erasures.request(name, _parse_key(parse_json(body)), sender_of(request))

    return json_response(describe(await state.run(start), None), status=202)


async def list_erasures(request: Request) -> Response:
    """GET /event-types/{event_type}/erasures: list the 100 newest."""
    state, name = state_of(request), event_type_of(request)

    def find() -> list[dict[str, Any]]:
        state.hub.registry.load(name)
        erasures = state.hub.erasures
        return [describe(each, erasures.find_wait(each)) for each in erasures.list(name)]

    return json_response({"items": await state.run(find)})


async def show_erasure(request: Request) -> Response:
    """GET /event-types/{event_type}/erasures/{id}: show what was erased."""
    state, name = state_of(request), event_type_of(request)
    asked: str = request.path_params["id"]
    found = await state.run(lambda: state.hub.erasures.find(name, asked))
    return json_response(describe(found, state.hub.erasures.find_wait(found)))


def describe(erasure: StoredErasure, waits_for: str | None) -> dict[str, Any]:
    """Return what a caller may know of an erasure: not its key."""
    return {
        "id": erasure.id,
        "event_type": erasure.event_type,
        "key_sha256": erasure.digest,
        "state": "requested" if erasure.finished_at is None else "finished",
        "requested_by": erasure.requested_by,
        "requested_at": format_time(erasure.requested_at),
        "finished_at": None if erasure.finished_at is None else format_time(erasure.finished_at),
        "waits_for": waits_for,
        "partitions": [
            {"partition": str(number), "before_offset": end} for number, end in sorted(erasure.ends.items())
        ],
        "erased": erasure.erased._asdict(),
    }


def _parse_key(body: Any) -> str:
    allowed = 'an object with the member "key", a text'
    if not isinstance(body, dict) or [*body] != ["key"]:
        raise BadParameter(f"The body {describe_mismatch(body, allowed)}", parameter="body", allowed=allowed)
    key = body["key"]
    if not isinstance(key, str) or "\0" in key:
        raise BadParameter(f'Field "key" {describe_mismatch(key, "a text")}', parameter="key", allowed="a text")
    return key
