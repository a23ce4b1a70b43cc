"""Errors as answers: the only file that knows both our errors and HTTP's statuses."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from penstock import errors
from penstock.errors import PenstockError
from penstock.server.access import access_of
from penstock.wire.problem import MEDIA_TYPE, to_problem
from penstock.wire.query import shown

_STATUS: Final[dict[type[PenstockError], int]] = {
    errors.Invalid: 400,
    errors.InvalidEvent: 422,
    errors.InvalidEventType: 422,
    errors.MalformedEventType: 400,
    errors.IncompatibleSchema: 422,
    errors.GuidelinesBroken: 422,
    errors.PartitionRefused: 422,
    errors.SubscriptionNotFound: 422,
    errors.UnusableCursor: 422,
    errors.UnusableStart: 412,
    errors.BadStreamParameter: 422,
    errors.UndeletableEvents: 422,
    errors.InvalidSetting: 422,
    errors.StorageFixed: 422,
    errors.EncodingRefused: 406,
    errors.UnsupportedMediaType: 415,
    errors.TooLarge: 413,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Forbidden: 403,
    errors.NotOffered: 501,
    errors.CursorExpired: 410,
    errors.Unavailable: 503,
    errors.SchemaError: 503,
    errors.PenstockError: 500,
}
_RETRY_SECONDS: Final[dict[type[PenstockError], int]] = {errors.SchemaError: 30, errors.PenstockError: 1}
"""For errors that do not say themselves when to ask again: tables are brought up to date by somebody's hand."""
_log: Final = structlog.get_logger("penstock.server")


def status_of(error: PenstockError) -> int:
    """Return the status of *error*: that of its class, or of the nearest ancestor that has one."""
    return _of_nearest(_STATUS, error)


def problem_response(error: PenstockError) -> Response:
    """Return the answer that tells of *error*."""
    status = status_of(error)
    headers = {}
    if status == 503:
        headers["Retry-After"] = str(error.fields.get("retry_after", _of_nearest(_RETRY_SECONDS, error)))
    return _response(to_problem(error, status, HTTPStatus(status).phrase), status, headers)


async def on_penstock_error(request: Request, error: Exception) -> Response:
    """Answer with the problem of one of our errors."""
    assert isinstance(error, PenstockError)
    access_of(request).refusal = {"code": error.code, "detail": error.detail}
    if (status := status_of(error)) >= 500:
        path = request.scope["path"]
        _log.warning("refused", method=request.method, path=path, status=status, code=error.code, detail=error.detail)
    return problem_response(error)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Answer with a problem where the framework itself refuses: no such route, no such method."""
    assert isinstance(error, HTTPException)
    status, detail, headers = error.status_code, error.detail, dict(error.headers or {})
    at = request.scope.get("root_path", "")
    if status == 404:
        detail = f"there is nothing at {shown(request.scope['path'])}"
    if status == 405:  # The framework knows the methods of one route alone, and every operation is a route.
        routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
        headers["Allow"] = ", ".join(sorted({method for route in routes for method in route.methods}))
        detail = f"{request.method} is not for this path: {headers['Allow']} are"
    problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    problem["hint"] = f"GET {at}/docs shows what there is."
    return _response(problem, status, headers)


async def on_defect(request: Request, error: Exception) -> Response:
    """Answer for a mistake of ours, which is logged whole."""
    _log.error("defect", method=request.method, path=request.url.path, exc_info=error)
    detail = "this should not have happened; the hub's log has more"
    return _response(
        {"type": "about:blank", "title": "Internal Server Error", "status": 500, "detail": detail}, 500, {}
    )


def _of_nearest(known: Mapping[type[PenstockError], int], error: PenstockError) -> int:
    return next(known[kind] for kind in type(error).__mro__ if kind in known)


def _response(problem: dict[str, object], status: int, headers: dict[str, str]) -> Response:
    headers = {"Cache-Control": "no-store", **headers}  # Else a cache may keep some of them, such as a 404.
    return Response(msgspec.json.encode(problem), status, headers, MEDIA_TYPE)
