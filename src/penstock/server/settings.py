"""The routes of settings, as Nakadi has them: who administers the hub, who is blocked, which features are on."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.events.encoding import unlike
from penstock.core.registry.event_type import ADMINISTRATORS
from penstock.errors import BadParameter
from penstock.hub.settings import FEATURES, LISTS
from penstock.server.answers import json_response
from penstock.server.body import parsed, read_body
from penstock.server.caller import administered
from penstock.server.warnings import warn
from penstock.wire.query import shown

SETTING_BYTES_MAX: Final = 256 * 1024


async def show_administrators(request: Request) -> Response:
    """GET /settings/admins: show who administers the hub, who may look, and who may change any event type."""
    state = await administered(request)
    named = state.hub.settings.now().administration
    return json_response({name: named[name] for name in LISTS})


async def replace_administrators(request: Request) -> Response:
    """POST /settings/admins: replace all three lists."""
    state = await administered(request)
    body = await read_body(request, state, SETTING_BYTES_MAX)
    await state.run(lambda: state.hub.settings.administer(parsed(body)))
    return warn(Response(status_code=200), [ADMINISTRATORS])


async def show_blacklist(request: Request) -> Response:
    """GET /settings/blacklist: show which applications and event types are blocked."""
    state = await administered(request)
    blocked = state.hub.settings.now().blocked
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
    state, given = await administered(request), request.path_params
    await state.run(lambda: state.hub.settings.block(given["type"], given["name"]))
    return Response(status_code=204)


async def unblock(request: Request) -> Response:
    """DELETE /settings/blacklist/{type}/{name}: lift a block, if there is one."""
    state, given = await administered(request), request.path_params
    await state.run(lambda: state.hub.settings.unblock(given["type"], given["name"]))
    return Response(status_code=204)


async def show_features(request: Request) -> Response:
    """GET /settings/features: show which features there are, and which are on."""
    state = await administered(request)
    on = state.hub.settings.now().features
    return json_response({"items": [{"feature": feature, "enabled": feature in on} for feature in FEATURES]})


async def switch_feature(request: Request) -> Response:
    """POST /settings/features: switch a feature on or off."""
    state = await administered(request)
    body = await read_body(request, state, SETTING_BYTES_MAX)

    def switch() -> None:
        feature, on = _switch(parsed(body))
        state.hub.settings.switch(feature, on=on)

    await state.run(switch)
    return Response(status_code=204)


def _switch(body: Any) -> tuple[str, bool]:
    if not isinstance(body, dict):
        raise _wrong("body", body, "an object of feature and enabled")
    for member in body:
        if member not in ("feature", "enabled"):
            raise BadParameter(
                f"there is no member {shown(member)!r}", parameter=shown(member), allowed="feature, enabled"
            )
    feature, enabled = body.get("feature"), body.get("enabled")
    if not isinstance(feature, str) or feature not in FEATURES:
        raise _wrong("feature", feature, f"one of {', '.join(FEATURES)}")
    if not isinstance(enabled, bool):
        raise _wrong("enabled", enabled, "true or false")
    return feature, enabled


def _wrong(name: str, value: Any, right: str) -> BadParameter:
    return BadParameter(f"{name} {unlike(value, right)}", parameter=name, allowed=right)
