"""The routes of administration in Nakadi's shape: settings, storages, timelines.

Settings are the administrators, the blocked applications and event types, and the features that are on. By storages and
timelines Nakadi moves event types from one Kafka cluster to another. Here there is one storage, the hub's database, and
one timeline a feed: clients can look at them, and are refused another one.
"""

from typing import Any, Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.access import LISTS
from penstock.core.events.encoding import describe_mismatch
from penstock.core.registry.event_type import ADMINISTRATORS, StoredFeed
from penstock.core.registry.retention import RetentionLimits
from penstock.core.times import format_time
from penstock.errors import BadParameter, InvalidSetting
from penstock.hub.admin.settings import FEATURES, SettingsSnapshot, describe_limits, describe_replica_readers
from penstock.server.auth import check_lists, sender_of
from penstock.server.http.requests import parse_json, read_body
from penstock.server.http.responses import json_response, warn
from penstock.server.state import State, event_type_of, state_of
from penstock.wire.query import make_printable

SETTING_BYTES_MAX: Final = 256 * 1024


async def show_administrators(request: Request) -> Response:
    """GET /settings/admins: show the lists of administrators, and of readers and writers of all event types."""
    state = state_of(request)
    named = state.hub.admin.settings.current().administration
    return json_response({name: named[name] for name in LISTS})


async def replace_administrators(request: Request) -> Response:
    """POST /settings/admins: replace all three lists."""
    state = state_of(request)
    body = await read_body(request, state.run, SETTING_BYTES_MAX)

    def replace() -> None:
        lists = parse_json(body)
        check_lists(request, lists, InvalidSetting)
        state.hub.admin.settings.replace_administrators(lists, sender_of(request))

    await state.run(replace)
    return warn(Response(status_code=200), [] if state.hub.admin.permissions.is_enforced else [ADMINISTRATORS])


async def show_blacklist(request: Request) -> Response:
    """GET /settings/blacklist: show which applications and event types are blocked."""
    state = state_of(request)
    blocked = state.hub.admin.settings.current().blocked
    return json_response(
        {
            side: {
                things: sorted(name for kind, name in blocked if kind == f"{prefix}_{suffix}")
                for things, suffix in (("event_types", "ET"), ("apps", "APP"))
            }
            for side, prefix in (("producers", "PRODUCER"), ("consumers", "CONSUMER"))
        }
    )


async def block(request: Request) -> Response:
    """PUT /settings/blacklist/{type}/{name}: block an application or an event type, within about a second."""
    state, given = state_of(request), request.path_params
    await state.run(lambda: state.hub.admin.settings.block(given["type"], given["name"], sender_of(request)))
    return Response(status_code=204)


async def unblock(request: Request) -> Response:
    """DELETE /settings/blacklist/{type}/{name}: lift a block, if there is one."""
    state, given = state_of(request), request.path_params
    await state.run(lambda: state.hub.admin.settings.unblock(given["type"], given["name"], sender_of(request)))
    return Response(status_code=204)


async def show_features(request: Request) -> Response:
    """GET /settings/features: show which features there are, and which are on."""
    state = state_of(request)
    on = state.hub.admin.settings.current().features
    return json_response({"items": [{"feature": feature, "enabled": feature in on} for feature in FEATURES]})


async def switch_feature(request: Request) -> Response:
    """POST /settings/features: switch a feature on or off."""
    state = state_of(request)
    body = await read_body(request, state.run, SETTING_BYTES_MAX)

    def switch() -> None:
        feature, on = _switch(parse_json(body))
        state.hub.admin.settings.switch(feature, on=on, by=sender_of(request))

    await state.run(switch)
    return Response(status_code=204)


async def show_replica_readers(request: Request) -> Response:
    """GET /settings/replicas: show the callers whose reads may go to replicas of the database; null: all callers."""
    return json_response(describe_replica_readers(state_of(request).hub.admin.settings.current()))


async def replace_replica_readers(request: Request) -> Response:
    """PUT /settings/replicas: replace the callers whose reads may go to replicas; null: all callers."""
    state = state_of(request)
    body = await read_body(request, state.run, SETTING_BYTES_MAX)

    def replace() -> SettingsSnapshot:
        given = parse_json(body)
        if not isinstance(given, dict) or [*given] != ["readers"]:
            raise _make_mismatch_error("body", given, "an object of readers, a list of callers or null")
        check_lists(request, given, InvalidSetting)
        settings = state.hub.admin.settings
        settings.replace_replica_readers(given["readers"], sender_of(request))
        return settings.current()

    return json_response(describe_replica_readers(await state.run(replace)))


async def show_retention(request: Request) -> Response:
    """GET /settings/retention: show the retention of event types that set none."""
    return json_response(describe_limits(state_of(request).hub.admin.settings.current().retention))


async def replace_retention(request: Request) -> Response:
    """PUT /settings/retention: replace the retention of event types that set none; null is no limit."""
    state = state_of(request)
    body = await read_body(request, state.run, SETTING_BYTES_MAX)

    def replace() -> RetentionLimits:
        limits = _parse_retention(parse_json(body))
        state.hub.admin.settings.replace_retention(limits, sender_of(request))
        return limits

    return json_response(describe_limits(await state.run(replace)))


def _parse_retention(body: Any) -> RetentionLimits:
    names = [*describe_limits(RetentionLimits())]
    if not isinstance(body, dict) or sorted(body) != sorted(names):
        allowed = f"an object with {' and '.join(names)}, each a whole number or null"
        raise BadParameter(f"The body {describe_mismatch(body, allowed)}", parameter="body", allowed=allowed)
    for name in names:
        if body[name] is not None and type(body[name]) is not int:
            allowed = "a whole number or null"
            raise BadParameter(
                f'Field "{name}" {describe_mismatch(body[name], allowed)}', parameter=name, allowed=allowed
            )
    return RetentionLimits.parse(body)


def _switch(body: Any) -> tuple[str, bool]:
    if not isinstance(body, dict):
        raise _make_mismatch_error("body", body, "an object of feature and enabled")
    for member in body:
        if member not in ("feature", "enabled"):
            raise BadParameter(
                f"there is no member {make_printable(member)!r}",
                parameter=make_printable(member),
                allowed="feature, enabled",
            )
    feature, enabled = body.get("feature"), body.get("enabled")
    if not isinstance(feature, str) or feature not in FEATURES:
        raise _make_mismatch_error("feature", feature, f"one of {', '.join(FEATURES)}")
    if not isinstance(enabled, bool):
        raise _make_mismatch_error("enabled", enabled, "true or false")
    return feature, enabled


def _make_mismatch_error(name: str, value: Any, right: str) -> BadParameter:
    return BadParameter(f"{name} {describe_mismatch(value, right)}", parameter=name, allowed=right)


STORAGE: Final = "default"


async def list_storages(request: Request) -> Response:
    """GET /storages: list storages; there is one."""
    return json_response([_storage(state_of(request))])


async def show_storage(request: Request) -> Response:
    """GET /storages/{id}: show a storage."""
    state = state_of(request)
    _check_storage(request)
    return json_response(_storage(state))


async def add_storage(_: Request) -> Response:
    """POST /storages: refused, since there is one storage."""
    raise InvalidSetting.of("storage-fixed", storage=STORAGE)


async def delete_storage(request: Request) -> Response:
    """DELETE /storages/{id}: refused, since the one storage holds all events."""
    _check_storage(request)
    raise InvalidSetting.of("storage-in-use", storage=STORAGE)


async def choose_storage(request: Request) -> Response:
    """PUT /storages/default/{id}: have new event types in this storage, as they are anyway."""
    state = state_of(request)
    _check_storage(request)
    return json_response(_storage(state))


async def list_timelines(request: Request) -> Response:
    """GET /event-types/{event_type}/timelines: list an event type's timelines; there is one."""
    state, name = state_of(request), event_type_of(request)
    return json_response([_timeline(await state.run(lambda: state.hub.registry.load(name)))])


async def add_timeline(request: Request) -> Response:
    """POST /event-types/{event_type}/timelines: refused, since there is one timeline."""
    state, name = state_of(request), event_type_of(request)
    await state.run(lambda: state.hub.registry.load(name))
    raise InvalidSetting.of("storage-fixed", storage=STORAGE)


def _check_storage(request: Request) -> None:
    if (given := request.path_params["id"]) != STORAGE:
        raise InvalidSetting.of("storage-not-found", storage=make_printable(given), existing=STORAGE)


def _storage(state: State) -> dict[str, object]:
    return {"id": STORAGE, "storage_type": state.hub.admin.database.kind, "default": True}


def _timeline(feed: StoredFeed) -> dict[str, object]:
    created_at = format_time(feed.created_at)
    return {
        "id": str(UUID(int=(feed.id << 64) | feed.epoch)),
        "event_type": feed.name,
        "order": feed.epoch,
        "storage_id": STORAGE,
        "topic": feed.name,
        "created_at": created_at,
        "switched_at": created_at,
        "cleaned_up_at": None,
        "latest_position": None,
    }
