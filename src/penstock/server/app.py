"""The ASGI application of a hub: dispatches requests by the routing table, starts and stops the hub."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from penstock.core.access import Attribute
from penstock.core.registry.definition import Limits, limits_of
from penstock.errors import HubUnavailable, OutcomeUnknown, PenstockError
from penstock.hub.admin.permissions import AccessPolicy, DefaultAccess
from penstock.hub.hub import Hub
from penstock.server.auth import admit, check_producer, check_producer_owner, resource_of
from penstock.server.authentication.authentication import Authentication, Method
from penstock.server.console.pages import load_console
from penstock.server.http.cors import AllowedOrigins
from penstock.server.http.encoding import choose_form, prefers
from penstock.server.http.problems import on_defect, on_http_error, on_penstock_error, problem_response
from penstock.server.http.requests import (
    CREDENTIAL,
    TrustedProxies,
    check_again,
    check_arrival,
    make_flow_id,
    read_body,
)
from penstock.server.http.responses import CUT
from penstock.server.limits import OPEN_LIMITS, USAGE, Limiter, RequestUsage, UsageLimits
from penstock.server.log.publish import PlainPublishes, WholeRequest, read_plain_head
from penstock.server.openapi.operation import Endpoint, HttpOperation
from penstock.server.routes import PUBLISH_LINES, ROUTES
from penstock.server.state import CACHE_TTL_SECONDS, STATE, State, state_of
from penstock.server.telemetry import QUIET, AccessLine, LogAccess, access_of, log_access
from penstock.wire.log.server_sent_events import EVENT_STREAM
from penstock.wire.producers import check_group


class HubApp:
    """ASGI application of a hub, to be served by itself or mounted in your own application.

        hub = HubApp("sqlite:///shop.db")
        app = FastAPI(lifespan=hub.lifespan)
        app.mount("/events", hub)

    Starlette and FastAPI do not run the lifespan of mounted applications: pass it on as above. Without that the hub
    starts on its first request and ends with the process; no events are lost.

    Args:
        database: the URL of the database, see `penstock.storage.open_store`; or a function that opens a `Hub`.
        migrate: migrate the tables when starting.
        nakadi_strict: send problems with Nakadi's members only, and apply Nakadi's limits
            (`penstock.core.registry.definition`). A hub that *database* opens keeps its own limits.
        guidelines: `refuse` event types that break a guideline of the level MUST without a waiver; `warn` accepts them
            with a warning. A hub that *database* opens does as its own limits say.
        authentication: methods that identify callers, tried in this order (`penstock.server.authentication`). Without
            any, the hub does not authenticate, and every client may do everything.
        administrators: administrators of the hub in addition to those in its settings, such as `service:deploy`.
        default_access: access to event types and subscriptions without `authorization`: all callers (`open`), or the
            owner and administrators (`closed`).
        is_local: answer only requests for this machine's own names: addresses, `localhost`. This keeps web pages from
            reaching, through a browser on this machine, a hub that believes whoever connects (DNS rebinding).
        host_names: answer under these names, such as `hub.example`, and under this machine's own alone.
        cors_origins: origins whose pages may use the hub in a browser, such as `https://app.example` (CORS), with the
            credentials that the browser has for the hub. Pages of other origins are refused.
        trusted_proxies: addresses and networks of proxies in front of the hub, such as `10.0.0.0/8`. Their header
            `X-Forwarded-For` determines the addresses of clients; `X-Forwarded-Prefix`, `Forwarded` and
            `X-Forwarded-Host`/`-Proto` determine links.
        limits: limits of use for each caller and for all callers together.
        cache_ttl_seconds: time for which HTTP caches may keep pages that end before the end of their feed, and so
            serve events that were erased or have expired. Below 1 they may keep none.
        console: serve the console at `/console`. None: if the hub authenticates callers, or is local.
        access_log: logs the line of each request; None logs nothing.

    Raises:
        TypeError: *trusted_proxies* is a single string.
        ValueError: a trusted proxy is no address and no network, an origin is none, or an administrator is not written
            as `DATA_TYPE:VALUE`.
    """

    def __init__(
        self,
        database: str | Callable[[], Hub],
        *,
        migrate: bool = True,
        nakadi_strict: bool = False,
        guidelines: Literal["warn", "refuse"] = "warn",
        authentication: Sequence[Method] = (),
        administrators: Iterable[str] = (),
        default_access: DefaultAccess = "open",
        is_local: bool = False,
        host_names: Iterable[str] = (),
        cors_origins: Iterable[str] = (),
        trusted_proxies: Iterable[str] = (),
        limits: UsageLimits = OPEN_LIMITS,
        cache_ttl_seconds: float = CACHE_TTL_SECONDS,
        console: bool | None = None,
        access_log: LogAccess | None = log_access,
    ) -> None:
        event_limits = limits_of(nakadi_strict=nakadi_strict, refuses_by_guidelines=guidelines == "refuse")
        opens = database if callable(database) else lambda: _open(database, migrate, event_limits)
        policy = AccessPolicy(frozenset(map(Attribute.parse, administrators)), default_access)
        names = frozenset(map(str.lower, host_names))
        self._names = names if is_local or names else None
        origins = [*cors_origins]
        self._origins = AllowedOrigins(origins) if origins else None
        self._proxies = TrustedProxies(trusted_proxies)
        self._limiter = Limiter(limits, self._proxies.__contains__)
        asks = Authentication(authentication) if authentication else None
        self._state = State(opens, asks, policy, self._limiter, cache_ttl_seconds)
        self._publishes = PlainPublishes(self._state, PUBLISH_LINES, self._end)
        self._log_access = access_log
        self._app = Starlette(
            routes=[Route(each.route, _make_endpoint(each), methods=[each.method]) for each in ROUTES],
            exception_handlers={
                PenstockError: on_penstock_error,
                HTTPException: on_http_error,
                Exception: on_defect,
            },
            lifespan=self.lifespan,
        )
        self._app.state.operations = ROUTES
        self._app.state.nakadi_strict = nakadi_strict
        has_console = bool(authentication) or is_local if console is None else console
        self._app.state.console = load_console() if has_console else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = scope
        origins = self._origins
        scope, flow_id, refusal, closes = check_arrival(
            self._proxies.apply_forwarding(scope), names=self._names, origins=() if origins is None else origins
        )
        if origins is not None:
            send = origins.add_headers(scope, send)
        scope[STATE] = self._state
        self._state.metrics.stalls.notice()
        access = AccessLine.begin(scope, send, flow_id, closes=closes)
        try:
            if refusal is None:
                await self._dispatch(scope, receive, access)
            else:
                await self._refuse(refusal, access)(scope, receive, access.send)
        except asyncio.CancelledError:  # A server that stops cancels requests that take too long.
            if access.status or not self._state.stopping:
                raise
            await self._refuse(_make_unfinished_error(scope["method"], access), access)(scope, receive, access.send)
        finally:
            if access.cut_reason is not None:
                given[CUT] = access.cut_reason
            self._end(scope, access)

    def _end(self, scope: Scope, access: AccessLine) -> None:
        """Count and log a request that has ended."""
        usage: RequestUsage | None = scope.get(USAGE)
        if usage is not None:
            usage.end()
        self._state.metrics.requests.add(access)
        activity = self._state.activity
        records = activity is not None and activity.is_on
        if self._log_access is not None or records:
            access.end()
        if self._log_access is not None:
            self._log_access(access)
        if activity is not None and records:
            access.record(activity, is_authenticated=self._state.authentication is not None)
        access.release()

    def take(self, scope: Scope, body: bytes, memo: dict[str, Any], request: WholeRequest) -> bool:
        """Answer a whole request with this *body* soon, without a task of its own; return False if it has to be served.

        Small publishes are taken. *memo* is a dictionary that requests with the same head share, but for their
        Content-Length: what follows from the head is worked out once.
        """
        if _HEAD not in memo:
            memo[_HEAD] = self._find_plain_head(dict(scope))
        head: _PlainHead | None = memo[_HEAD]
        if head is None:
            return False
        scope[STATE] = self._state
        if head.credential is not None:
            scope[CREDENTIAL] = head.credential
        self._state.metrics.stalls.notice()
        AccessLine(scope, _send_nothing, make_flow_id())
        return self._publishes.take(head.event_type, scope, body, request)

    def _find_plain_head(self, scope: Scope) -> "_PlainHead | None":
        """Return what the head of a request says, if it is that of a small publish without particularities."""
        if scope["method"] != "POST" or self._origins is not None:
            return None
        name, (length, has_flow_id) = self._publishes.find_event_type(scope), read_plain_head(scope["headers"])
        if name is None or not length or has_flow_id:
            return None
        arrived = check_arrival(self._proxies.apply_forwarding(scope), names=self._names)
        if arrived.scope is not scope or arrived.refusal is not None or arrived.closes:
            return None
        return _PlainHead(name, scope.get(CREDENTIAL))

    async def _dispatch(self, scope: Scope, receive: Receive, access: AccessLine) -> None:
        if self._origins is not None and (preflight := self._origins.answer_preflight(scope)) is not None:
            await preflight(scope, receive, access.send)
            return
        rest: Receive | None = receive
        name = self._publishes.find_event_type(scope) if scope["method"] == "POST" else None
        if name is not None:
            try:
                rest = await self._publishes.serve(name, scope, receive, access)
            except PenstockError as error:
                await self._answer(on_penstock_error, error, scope, receive, access)
                return
            except Exception as error:
                await self._answer(on_defect, error, scope, receive, access)
                raise
        if rest is not None:
            await self._app(scope, rest, access.send)

    async def _answer(
        self,
        on_error: Callable[[Request, Exception], Awaitable[Response]],
        error: Exception,
        scope: Scope,
        receive: Receive,
        access: AccessLine,
    ) -> None:
        scope["app"] = self._app
        answer = await on_error(Request(scope), error)
        await answer(scope, receive, access.send)

    def _refuse(self, error: PenstockError, access: AccessLine) -> Response:
        access.refuse(error)
        return problem_response(error, strict=self._app.state.nakadi_strict)

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Start the hub when the application starts, and stop it when the application ends."""
        await self._state.start()
        try:
            yield
        finally:
            await self._state.stop()

    @property
    def hub(self) -> Hub:
        """The hub, which must have been started."""
        return self._state.hub

    @property
    def limiter(self) -> Limiter:
        """The limiter, which enforces limits of use; servers ask it about each connection."""
        return self._limiter

    def drain(self) -> None:
        """End all waits: each waiting request is answered with the events that it has."""
        self._state.drain()

    def watch_certificate(self, seconds_left: Callable[[], float]) -> None:
        """Export the remaining validity of the server's certificate as a metric."""
        self._state.metrics.certificate_seconds_left = seconds_left

    def give_up(self, timeout: float) -> None:
        """Begin to stop while requests are under way, and return at once.

        After *timeout* seconds, requests that still wait for the database are answered with HubUnavailable if nothing
        was done, and with OutcomeUnknown otherwise.
        """
        self._state.give_up(timeout)


class _PlainHead(NamedTuple):
    """The head of a small publish."""

    event_type: str
    credential: bytes | None


_HEAD: Final = "penstock.plain-head"
"""The key of a `_PlainHead`, or None, in the memo that requests share."""


async def _send_nothing(_: Message) -> None:
    raise RuntimeError("the server sends the answer to this request itself")


def _make_endpoint(operation: HttpOperation) -> Endpoint:
    """Return the handler of *operation* with the checks that precede it.

    1. The client accepts the media type of the answer. This is checked for GET operations with one media type, except
       for those that machines poll; operations with several choose one themselves.
    2. The sender has the permission that the operation needs, and may use the producer group in the path, or owns it.
    3. The body, if the operation ignores it, is as long as its header says: otherwise the rest may be another request
       (request smuggling).
    """
    only_form = _find_only_form(operation)
    check_group_owner = check_producer_owner if operation.needs == "own" else check_producer
    changes_producer = "/producers/{group}" in operation.path and operation.method != "GET"
    ignores_body = operation.method != "GET" and operation.body is None
    route = f"{operation.method} {operation.path}"

    async def handle(request: Request) -> Any:
        access = access_of(request)
        access.event, access.route = operation.event, route
        if only_form is not None:
            choose_form(request, only_form)
        if operation.needs is not None:
            await state_of(request).start()
            resource = resource_of(request)
            if resource.kind == "event_type":
                access.note_feed(resource.name)
            await admit(request.scope, operation.needs, resource, may_be_missing=operation.may_be_missing)
            usage: RequestUsage | None = request.scope.get(USAGE)
            if usage is not None and (turn := usage.take_turn()) is not None:
                await turn
                check_again(request.scope)
            if changes_producer and state_of(request).authentication is not None:
                name, group = resource.name, check_group(request.path_params["group"])
                await state_of(request).run(lambda: check_group_owner(request, name, group))
        if ignores_body and ("content-length" in request.headers or "transfer-encoding" in request.headers):
            await read_body(request, state_of(request).run)
        return await operation.handler(request)

    if operation.without_query is None:
        return handle
    handle_bare = _make_endpoint(operation.without_query)
    bare_forms = list(operation.without_query.answer.content)

    async def choose(request: Request) -> Any:
        is_whole = request.scope["query_string"].strip(b"&") or prefers(request, EVENT_STREAM, *bare_forms)
        return await (handle if is_whole else handle_bare)(request)

    return choose


def _find_only_form(operation: HttpOperation) -> str | None:
    """Return the media type that clients must accept; None if the handler chooses it or accepts any client."""
    forms = list(operation.answer.content)
    return forms[0] if operation.method == "GET" and len(forms) == 1 and operation.path not in QUIET else None


def _make_unfinished_error(method: str, access: AccessLine) -> PenstockError:
    unread = access.event == "publish" and access.received is None
    if method in ("GET", "HEAD") or unread:
        return HubUnavailable.of("hub-stopped", retry_after=1)
    return OutcomeUnknown(reason="the hub stopped while it was under way")


def _open(database: str, migrate: bool, limits: Limits) -> Hub:
    from penstock.storage import open_store

    store = open_store(database)
    if migrate:
        store.migrate()
    hub = Hub(store, limits=limits)
    hub.start()
    return hub
