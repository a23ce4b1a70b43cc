"""The routes of tokens by which callers identify themselves: create, list, rotate, revoke."""

from contextlib import suppress
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.access import CALLER_CHARS_MAX, Attribute, Caller, find_typed_name, is_caller_name
from penstock.errors import AccessDenied, BadParameter, PenstockError
from penstock.hub.admin.tokens import NewToken, describe_token
from penstock.server.auth import sender_of
from penstock.server.http.requests import parse_json, read_body
from penstock.server.http.responses import json_response
from penstock.server.state import State, state_of
from penstock.wire.arguments import convert_body
from penstock.wire.query import make_printable

BODY_BYTES_MAX: Final = 64 * 1024
SECONDS_MAX: Final = 100 * 366 * 86_400.0
OVERLAP_SECONDS: Final = 86_400.0
"""How long a token that was rotated stays valid by default."""
_NEW_FORM: Final = "name, type (service or user), expires_in_seconds (at least 1, or null), admin (true or false)"
_ROTATION_FORM: Final = "overlap_seconds (at least 0)"


class TokenRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for a token."""

    name: str
    """The name of the caller that will send it."""
    type: Literal["service", "user"] = "service"
    expires_in_seconds: Annotated[float, Meta(ge=1, le=SECONDS_MAX)] | None = None
    """None: it never expires."""
    admin: bool = False
    """Whether the caller becomes an administrator of the hub, too."""


class TokenRotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for a token in place of another."""

    overlap_seconds: Annotated[float, Meta(ge=0, le=SECONDS_MAX)] = OVERLAP_SECONDS
    """How long the old one stays valid."""


async def list_tokens(request: Request) -> Response:
    """GET /tokens: list all tokens, without their secrets."""
    state = state_of(request)
    return await state.run(
        lambda: json_response({"items": [describe_token(each) for each in state.hub.admin.tokens.list()]})
    )


async def create_token(request: Request) -> Response:
    """POST /tokens: create a token; its secret is shown this once."""
    state = state_of(request)
    body = await read_body(request, state.run, BODY_BYTES_MAX)

    def create() -> Response:
        _check_knows_callers(state)
        given = convert_body(parse_json(body), TokenRequest, _NEW_FORM)
        _check_name(given.name)
        by, tokens = sender_of(request), state.hub.admin.tokens
        created = tokens.create(Caller(given.type, given.name), expires_in_seconds=given.expires_in_seconds, by=by)
        if given.admin:
            try:
                state.hub.admin.settings.add_member("admins", Attribute(given.type, given.name), by)
            except BaseException:
                _revoke_undelivered(request, created)
                raise
        return _answer_new(created)

    return await state.run(create)


async def rotate_token(request: Request) -> Response:
    """POST /tokens/{id}/rotation: create another token for the same caller; the old one expires after the overlap."""
    state, token_id = state_of(request), make_printable(request.path_params["id"])
    body = await read_body(request, state.run, BODY_BYTES_MAX)

    def rotate() -> Response:
        _check_knows_callers(state)
        given = convert_body(parse_json(body) if body.strip() else {}, TokenRotation, _ROTATION_FORM)
        made: list[NewToken] = []
        try:
            created = state.hub.admin.tokens.rotate(
                token_id, overlap_seconds=given.overlap_seconds, by=sender_of(request), hand_over=made.append
            )
        except BaseException:
            for each in made:
                _revoke_undelivered(request, each)
            raise
        _apply(state)
        return _answer_new(created)

    return await state.run(rotate)


async def revoke_token(request: Request) -> Response:
    """DELETE /tokens/{id}: delete a token: every hub refuses it within seconds, and ends what its caller reads."""
    state, token_id = state_of(request), make_printable(request.path_params["id"])

    def revoke() -> Response:
        tokens = state.hub.admin.tokens
        caller = tokens.revoke(token_id, sender_of(request)).caller
        _apply(state)
        lists, valid = state.hub.admin.settings.list_memberships(caller), tokens.count_valid(caller)
        return json_response({"revoked": token_id, "caller": str(caller), "lists": lists, "valid_tokens": valid})

    return await state.run(revoke)


def _check_knows_callers(state: State) -> None:
    """Raise AccessDenied if this hub does not authenticate callers.

    Otherwise any client could get a credential that other hubs of the database accept, and this hub later.
    """
    if state.authentication is None:
        raise AccessDenied.of("callers-unknown")


def _apply(state: State) -> None:
    """Apply a change of tokens in this process at once; other processes apply it within a second."""
    with suppress(PenstockError):  # The change is stored: this process reads it later.
        state.hub.admin.permissions.refresh()


def _check_name(name: str) -> None:
    """Raise BadParameter if *name* is no name of a caller, or has a type before it as elsewhere."""
    if not is_caller_name(name) or find_typed_name(name) is not None:
        allowed = (
            f"1 to {CALLER_CHARS_MAX} printable characters without a type before them, such as billing; * and "
            "unauthenticated mean everybody"
        )
        raise BadParameter(parameter="name", value=make_printable(name), allowed=allowed)


def _revoke_undelivered(request: Request, created: NewToken) -> None:
    """Revoke a new token whose secret the answer will not have."""
    with suppress(PenstockError):
        state_of(request).hub.admin.tokens.revoke(created.token.id, sender_of(request))


def _answer_new(created: NewToken) -> Response:
    answer = json_response({**describe_token(created.token), "token": created.secret}, 201)
    answer.headers["Cache-Control"] = "no-store"
    return answer
