"""The routes for operators: health, version, metrics, and the description of all routes."""

from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from penstock import __version__
from penstock.server.console.pages import CONSOLE
from penstock.server.http.encoding import choose_form
from penstock.server.http.responses import json_response, link, server_url
from penstock.server.metrics import METRICS_MEDIA_TYPE
from penstock.server.openapi import describe
from penstock.server.state import state_of


async def index(request: Request) -> Response:
    """GET /: show the name, the version, and links to start from."""
    shown = _SIGNPOSTS if request.app.state.console is None else {**_SIGNPOSTS, "console": CONSOLE}
    signposts = {name: link(request, path) for name, path in shown.items()}
    return json_response({"name": "penstock", "version": __version__} | signposts)


async def health(_: Request) -> Response:
    """GET /health: report that the process responds, in Nakadi's form."""
    return PlainTextResponse("OK")


async def live(_: Request) -> Response:
    """GET /health/live: report that the process responds."""
    return json_response({"status": "live"})


async def ready(request: Request) -> Response:
    """GET /health/ready: report that the database is usable and has the right tables; 503 otherwise."""
    state = state_of(request)
    await state.start()
    await state.run(state.hub.admin.database.check)
    return json_response({"status": "ready"})


async def version(_: Request) -> Response:
    """GET /version: show the version."""
    return json_response({"name": "penstock", "version": __version__})


async def metrics(request: Request) -> Response:
    """GET /metrics: show metrics for Prometheus, or in JSON to a client that prefers it."""
    state = state_of(request)
    form, database = choose_form(request, "text/plain", "application/json"), await state.ask_database()
    if form == "application/json":
        answer = json_response(await state.run(lambda: state.metrics.members(database)))
    else:
        text = await state.run(lambda: state.metrics.text(database))
        answer = Response(text, media_type=METRICS_MEDIA_TYPE)
    answer.headers["Vary"] = "Accept"
    return answer


async def openapi(request: Request) -> Response:
    """GET /openapi.json: describe this interface to programs (OpenAPI 3.1)."""
    authentication = state_of(request).authentication
    methods = authentication.names if authentication is not None else ()
    return json_response(describe(request.app.state.operations, __version__, server_url(request), methods))


_SIGNPOSTS: Final = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "asyncapi": "/asyncapi.json",
    "event_types": "/event-types",
    "feed": "/feeds/{event_type}",
    "health": "/health",
    "metrics": "/metrics",
}
