"""The hub as an ASGI application: the routing table, and how it starts and stops."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from penstock.core.registry.definition import Limits, limits_of
from penstock.errors import HubStopped, OutcomeUnknown, PenstockError
from penstock.hub.hub import Hub
from penstock.server.access import QUIET, Access
from penstock.server.http.encoding import choose_form
from penstock.server.http.links import TrustedProxies
from penstock.server.http.problems import on_defect, on_http_error, on_penstock_error, problem_response
from penstock.server.http.requests import arrived, read_body
from penstock.server.openapi.operation import Handler, Operation
from penstock.server.routes import ROUTES
from penstock.server.state import State


class HubApp:
    """The hub over HTTP: serve it by itself, or mount it in your own application.

        hub = HubApp("sqlite:///shop.db")
        app = FastAPI(lifespan=hub.lifespan)
        app.mount("/events", hub)

    Starlette and FastAPI do not run the lifespan of what is mounted: without the line that hands it on, the hub starts
    on its first request and ends with the process, losing nothing.

    Args:
        database: the URL of the database, see `penstock.storage.open_store`; or a function that opens a `Hub`.
        migrate: bring the tables up to date when starting.
        nakadi_strict: do as Nakadi does where Penstock would say or allow more: problems have no members but Nakadi's,
            and a hub that is opened here keeps to Nakadi's limits (`penstock.core.registry.definition`). One that
            *database* opens has those that it was given.
        guidelines: `refuse` those event types that break a guideline of the level MUST, and do not waive it; else
            their owners are warned. Of a hub that *database* opens, its limits say so.
        trusted_proxies: addresses and networks of proxies in front of the hub, such as `10.0.0.0/8`. Links follow
            `X-Forwarded-Prefix`, `Forwarded` and `X-Forwarded-Host`/`-Proto` where one of them says so.

    Raises:
        TypeError: *trusted_proxies* is a single string.
        ValueError: a trusted proxy is no address and no network.
    """

    def __init__(
        self,
        database: str | Callable[[], Hub],
        *,
        migrate: bool = True,
        nakadi_strict: bool = False,
        guidelines: Literal["warn", "refuse"] = "warn",
        trusted_proxies: Iterable[str] = (),
    ) -> None:
        limits = limits_of(nakadi_strict=nakadi_strict, refuses_by_guidelines=guidelines == "refuse")
        opens = database if callable(database) else lambda: _open(database, migrate, limits)
        self._state = State(opens)
        self._proxies = TrustedProxies(trusted_proxies)
        self._app = Starlette(
            routes=[Route(each.route, _endpoint(each), methods=[each.method]) for each in ROUTES],
            exception_handlers={
                PenstockError: on_penstock_error,
                HTTPException: on_http_error,
                Exception: on_defect,
            },
            lifespan=self.lifespan,
        )
        self._app.state.penstock = self._state
        self._app.state.operations = ROUTES
        self._app.state.nakadi_strict = nakadi_strict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope, flow_id, refusal, closes = arrived(self._proxies.as_forwarded(scope))
        access = Access(scope, send, flow_id, closes=closes)
        try:
            if refusal is None:
                await self._app(scope, receive, access.send)
            else:
                await self._refuse(refusal, access)(scope, receive, access.send)
        except asyncio.CancelledError:  # How a server that stops ends what takes too long.
            if access.status or not self._state.stopping:
                raise
            await self._refuse(_unfinished(scope["method"], access), access)(scope, receive, access.send)
        finally:
            access.write()

    def _refuse(self, error: PenstockError, access: Access) -> Response:
        access.refuse(error)
        return problem_response(error, strict=self._app.state.nakadi_strict)

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Start the hub when the application starts and stop it when it ends."""
        await self._state.start()
        try:
            yield
        finally:
            await self._state.stop()

    @property
    def hub(self) -> Hub:
        """The hub, once it has started."""
        return self._state.hub

    def drain(self) -> None:
        """End all waits: each answers with what it has."""
        self._state.drain()

    def give_up(self, timeout: float) -> None:
        """Begin to stop while requests are under way, and return at once.

        After *timeout* those that wait for the database are answered: HubStopped when nothing of them was done,
        OutcomeUnknown when that cannot be said.
        """
        self._state.give_up(timeout)


def _endpoint(operation: Operation) -> Handler:
    """Return the handler of *operation*, behind the checks that its description asks for.

    Where its answer has one form, the client has to accept that. An operation with several forms chooses itself.
    Requests that change something are carried out whatever they accept, and machines that look after the hub get their
    answer. A body that is ignored has to be as long as its head says, too: the request may be another one.
    """
    if operation.method != "GET" and operation.body is None:
        return _ignoring_body(operation.handler)
    if operation.method != "GET" or len(operation.answer.content) != 1 or operation.path in QUIET:
        return operation.handler
    [media_type] = operation.answer.content

    async def offering(request: Request) -> Any:
        choose_form(request, media_type)
        return await operation.handler(request)

    return offering


def _ignoring_body(handler: Handler) -> Handler:
    async def ignoring(request: Request) -> Any:
        if "content-length" in request.headers or "transfer-encoding" in request.headers:
            await read_body(request, request.app.state.penstock)
        return await handler(request)

    return ignoring


def _unfinished(method: str, access: Access) -> PenstockError:
    unread = access.event == "publish" and access.received is None
    if method in ("GET", "HEAD") or unread:
        return HubStopped(retry_after=1)
    return OutcomeUnknown(reason="the hub stopped while it was under way")


def _open(database: str, migrate: bool, limits: Limits) -> Hub:
    from penstock.storage import open_store

    store = open_store(database)
    if migrate:
        store.migrate()
    hub = Hub(store, limits=limits)
    hub.start()
    return hub
