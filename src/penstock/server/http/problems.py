"""Answers errors with problems (RFC 9457): the only module that knows both errors and HTTP statuses."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from penstock import errors
from penstock.errors import PenstockError
from penstock.server.http.responses import link
from penstock.server.telemetry import access_of
from penstock.wire.problem import MEDIA_TYPE, nakadi_problem, to_problem
from penstock.wire.query import make_printable

_STATUS: Final[dict[type[PenstockError], int]] = {
    errors.Invalid: 400,
    errors.InvalidEvent: 422,
    errors.InvalidEventType: 422,
    errors.InvalidSubscription: 422,
    errors.IncompatibleSchema: 422,
    errors.StreamNotFound: 422,
    errors.CommitRefused: 422,
    errors.UnusablePosition: 422,
    errors.InvalidSetting: 422,
    errors.UnsupportedFormat: 406,
    errors.TooLarge: 413,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.ProducerUnsafe: 409,
    errors.ProducerFenced: 412,
    errors.ProducerStateExpired: 410,
    errors.PayloadMismatch: 422,
    errors.ClaimRefused: 412,
    errors.LimitReached: 429,
    errors.BatchFenced: 412,
    errors.Unauthenticated: 401,
    errors.TooManyRequests: 429,
    errors.Forbidden: 403,
    errors.NotOffered: 501,
    errors.CursorExpired: 410,
    errors.Unavailable: 503,
    errors.DatabaseUnsuitable: 503,
    errors.ColdTierUnsuitable: 503,
    errors.PenstockError: 500,
}
_STATUS_OF_CODE: Final[dict[str, int]] = {
    "unsupported-media-type": 415,
    "malformed-event-type": 400,
    "malformed-subscription": 400,
    "bad-stream-parameter": 422,
    "unusable-start": 412,
    "undeletable-events": 422,
    "unknown-consumer": 422,
    "storage-not-found": 404,
    "storage-in-use": 403,
    "upload-incomplete": 422,
    "target-too-long": 414,
    "foreign-host": 421,
    "request-too-slow": 408,
    "headers-too-large": 431,
}
"""The statuses of codes that differ from the status of their class."""
CHALLENGE: Final = 'Bearer realm="penstock"'
"""The header WWW-Authenticate of an answer 401, the same for every reason (RFC 6750, 3)."""
_RETRY_SECONDS: Final[dict[type[PenstockError], int]] = {errors.DatabaseUnsuitable: 30, errors.PenstockError: 1}
"""Retry-After of errors that do not say it themselves; tables are migrated by hand."""
_log: Final = structlog.get_logger("penstock.server")


def status_of(error: PenstockError) -> int:
    """Return the status of *error*: that of its code, of its class, or of the nearest ancestor that has one."""
    return _STATUS_OF_CODE.get(error.code) or _find_nearest(_STATUS, error)


def problem_response(error: PenstockError, *, strict: bool = False) -> Response:
    """Return the problem of *error* as an answer; *strict* leaves only the members that Nakadi's problems have."""
    status = status_of(error)
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = CHALLENGE
    if status == 503 or error.retryable:
        headers["Retry-After"] = str(error.fields.get("retry_after", _find_nearest(_RETRY_SECONDS, error)))
    return _response(describe(error), status, headers, strict=strict)


def describe(error: PenstockError) -> dict[str, Any]:
    """Return the problem of *error*, as an answer or the end of a stream has it."""
    status = status_of(error)
    return to_problem(error, status, HTTPStatus(status).phrase)


async def on_penstock_error(request: Request, error: Exception) -> Response:
    """Answer with the problem of an error of Penstock."""
    assert isinstance(error, PenstockError)
    access = access_of(request)
    access.refuse(error)
    if (status := status_of(error)) >= 500:
        told = {"method": request.method, "path": request.scope["path"], "status": status, "flow_id": access.flow_id}
        _log.warning("refused", **told, **access.refusal)
    return problem_response(error, strict=_is_strict(request))


async def on_http_error(request: Request, error: Exception) -> Response:
    """Answer with a problem if the framework refuses: there is no such route, or no such method."""
    assert isinstance(error, HTTPException)
    status, detail, headers = error.status_code, error.detail, dict(error.headers or {})
    if status == 404:
        detail = f"there is nothing at {make_printable(request.scope['path'])}"
    if status == 405:  # The framework knows only the methods of one route, and every operation is a route.
        routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
        headers["Allow"] = ", ".join(sorted({method for route in routes for method in route.methods}))
        detail = f"{request.method} is not for this path: {headers['Allow']} are"
    problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    problem["hint"] = f"GET {link(request, '/docs')} shows what there is."
    return _response(problem, status, headers, strict=_is_strict(request))


async def on_defect(request: Request, error: Exception) -> Response:
    """Answer 500 for a defect of the hub, and log it with its traceback."""
    flow_id = access_of(request).flow_id
    _log.error("defect", method=request.method, path=request.url.path, flow_id=flow_id, exc_info=error)
    detail = f"this should not have happened; the hub's log has more, under the flow id {flow_id}"
    problem = {"type": "about:blank", "title": "Internal Server Error", "status": 500, "detail": detail}
    return _response(problem, 500, {}, strict=_is_strict(request))


def _find_nearest(known: Mapping[type[PenstockError], int], error: PenstockError) -> int:
    return next(known[kind] for kind in type(error).__mro__ if kind in known)


def _is_strict(request: Request) -> bool:
    return bool(request.app.state.nakadi_strict)


def _response(problem: Mapping[str, Any], status: int, headers: dict[str, str], *, strict: bool) -> Response:
    if strict:
        problem = nakadi_problem(problem)
    headers = {"Cache-Control": "no-store", **headers}  # Else a cache may keep some of them, such as a 404.
    return Response(msgspec.json.encode(problem), status, headers, MEDIA_TYPE)
