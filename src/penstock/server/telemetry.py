"""Telemetry: the access line of each request, from which the access log and the metrics are made."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import structlog
from starlette.requests import Request
from starlette.types import Message, Scope, Send

from penstock.core.access import UNAUTHENTICATED, Caller
from penstock.errors import PenstockError, Unauthenticated
from penstock.hub.activity import Activity, ConsumerName, RequestEntry, hide_tokens
from penstock.server.limits import USAGE, RequestUsage
from penstock.wire.query import make_printable

QUIET: Final = frozenset({"/health", "/health/live", "/health/ready", "/metrics"})
"""Paths that machines poll: their lines are logged at level debug, unless the request is refused."""
DETAIL_CHARS_MAX: Final = 2_000
"""A line of the log has at most so much of a problem's detail."""
NO_ROUTE: Final = "-"
"""The route of a request that is refused before its route is found."""
AGENT_CHARS_MAX: Final = 200
_REFUSED: Final = 4
"""The class of the status of requests that are refused."""
LOGGED_CHARS_MAX: Final = 1_000
"""The event of a request has at most so much of its path, and of its query."""
FEED_CHARS_MAX: Final = 255
_FREE_TEXTS: Final = frozenset({"method", "path", "flow_id", "feed", "consumer", "agent", "detail", "reason"})
"""Members whose text callers choose."""
Headers = Iterable[tuple[bytes, bytes]]
WHOLE_ANSWER: Final = "penstock.http.response"
"""An extension of ASGI: the type of an event with the status, the headers and the whole body of an answer. A server
that understands it has this key in the scope's `extensions`; to others an answer goes in the two events of ASGI."""
_KEY: Final = "penstock.access"
_log: Final = structlog.get_logger("penstock.access")


class AccessLine:
    """The line of one request in the access log. Handlers set the attributes that only they know."""

    __slots__ = (
        "_closes",
        "_method",
        "_path",
        "_root",
        "_scope",
        "_send",
        "_started_at",
        "answered_at",
        "bytes_sent",
        "caller",
        "consumer",
        "cut_reason",
        "ended_at",
        "event",
        "events",
        "feed",
        "flow_id",
        "ms",
        "n",
        "partitions",
        "received",
        "refusal",
        "route",
        "status",
        "waited",
    )

    def __init__(self, scope: Scope, send: Send, flow_id: str, *, closes: bool = False) -> None:
        """Begin the line of the request of *scope*, where `access_of` finds it.

        With *closes* the answer asks the server to close the connection.
        """
        self._closes = closes
        self._started_at = time.perf_counter()
        self._method: str = scope["method"]
        self._path: str = scope["path"]
        self._root: str = scope.get("root_path", "")
        self._scope = scope
        self._send = send
        self.flow_id = flow_id
        self.route = NO_ROUTE
        self.status = 0
        self.answered_at = 0.0
        self.waited = 0.0
        self.bytes_sent = 0
        self.event = "request"
        self.feed = "-"
        self.consumer = "-"
        self.caller: Caller | None = None
        self.n = 0
        self.partitions = ""
        self.events = 0
        self.received: int | None = None
        self.refusal: dict[str, str] = {}
        self.cut_reason: str | None = None
        """Why the hub ends the answer before it is whole; None: it does not."""
        self.ended_at = 0.0
        self.ms = 0.0
        scope[_KEY] = self

    @classmethod
    def begin(cls, scope: Scope, send: Send, flow_id: str, *, closes: bool) -> "AccessLine":
        """Return the line of the request of *scope*: the one that it has already, or a new one."""
        line: AccessLine | None = scope.get(_KEY)
        if line is None:
            return cls(scope, send, flow_id, closes=closes)
        line._send = send
        return line

    async def send(self, event: Message) -> None:
        """Send an ASGI event and count its bytes; add the flow id to the headers of the answer.

        If the caller has reached its limit of bytes, it returns only when more of the answer may be sent.
        """
        if event["type"] == "http.response.start":
            event = {**event, "headers": [*event.get("headers", ()), *self._make_headers()]}
        usage: RequestUsage | None = self._scope.get(USAGE)
        if usage is not None and usage.turns is not None:
            usage.end_turn()
        await self._send(event)
        if event["type"] == "http.response.body":
            size = len(event.get("body", b""))
            self.bytes_sent += size
            if usage is not None and (pause := usage.send(size)) and event.get("more_body"):
                await asyncio.sleep(pause)
        elif event["type"] == "http.response.start":
            self.status = event["status"]
            self.answered_at = time.perf_counter()

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer, in one event to servers that understand `WHOLE_ANSWER`."""
        if WHOLE_ANSWER not in self._scope.get("extensions", ()):
            await self.send({"type": "http.response.start", "status": status, "headers": headers})
            await self.send({"type": "http.response.body", "body": body})
            return
        self.note_answer(status, body)
        await self._send(
            {"type": WHOLE_ANSWER, "status": status, "headers": (*headers, *self._make_headers()), "body": body}
        )

    def note_answer(self, status: int, body: bytes) -> None:
        """Note a whole answer, which is sent now."""
        self.status, self.answered_at, self.bytes_sent = status, time.perf_counter(), len(body)
        usage: RequestUsage | None = self._scope.get(USAGE)
        if usage is not None:
            usage.end_turn()
            usage.send(len(body))

    def _make_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of every answer."""
        headers = [(b"x-flow-id", self.flow_id.encode("ascii"))]
        if self._closes:
            headers.append((b"connection", b"close"))
        return headers

    @property
    def seconds_to_answer(self) -> float:
        """How long it took to answer, up to the head of the answer, without the time that a read waited for events."""
        return self.answered_at - self._started_at - self.waited

    def refuse(self, error: PenstockError) -> None:
        """Note the code and the detail of the error that ends the request, cut at `DETAIL_CHARS_MAX`."""
        self.refusal |= {"code": error.code, "detail": error.detail[:DETAIL_CHARS_MAX]}

    def cut(self, reason: str) -> None:
        """Note that the hub ends the answer on purpose before it is whole; the first *reason* counts."""
        self.cut_reason = self.cut_reason or reason
        self.refusal.setdefault("reason", reason)

    def release(self) -> None:
        """Let go of the request's scope, so that both are freed at once; `access_of` finds the line no longer."""
        del self._scope[_KEY]

    def end(self) -> None:
        """Note that the request has ended."""
        self.ended_at = time.time()
        self.ms = round((time.perf_counter() - self._started_at) * 1000, 1)

    @property
    def is_quiet(self) -> bool:
        """True for requests to paths that machines poll, unless refused; their lines have level debug, others info."""
        return self._is_polled and self.status // 100 != _REFUSED

    @property
    def _is_polled(self) -> bool:
        return self._path.removeprefix(self._root) in QUIET

    @property
    def _agent(self) -> str:
        """The header User-Agent, cut at `AGENT_CHARS_MAX`; - if there is none."""
        for name, value in self._scope.get("headers", ()):
            if name == b"user-agent":
                agent: str = value[:AGENT_CHARS_MAX].decode("latin-1")
                return agent
        return "-"

    def note_feed(self, name: str) -> None:
        """Show *name* as that of the feed, if it can be one: an unknown name may be anything, of any length."""
        if name.isprintable() and len(name) <= FEED_CHARS_MAX:
            self.feed = name

    def record(self, activity: Activity, *, is_authenticated: bool) -> None:
        """Record the request, which has ended, in *activity*; callers are known if *is_authenticated*."""
        caller = self.caller or UNAUTHENTICATED
        if self.event == "publish" and self.events:
            activity.add_publish(self.feed, caller, events=self.events, size=self.received or 0, ms=self.ms)
        if activity.logs_requests and not self._is_polled:
            activity.add_request(self._make_entry("-" if self.caller is None and is_authenticated else caller.value))

    def _make_entry(self, app: str) -> RequestEntry:
        found = dict.fromkeys((b"user-agent", b"accept-encoding", b"content-encoding", b"content-length"), b"")
        for name, value in self._scope.get("headers", ()):
            if name in found:
                found[name] = value[:AGENT_CHARS_MAX]
        agent, accepts, encoding, length = found.values()
        query = self._scope.get("query_string", b"")[:LOGGED_CHARS_MAX].decode("latin-1")
        return RequestEntry(
            ended_at=int(self.ended_at * 1_000_000),
            method=self._method,
            path=self._path[:LOGGED_CHARS_MAX].encode(errors="backslashreplace").decode(),
            query=f"?{query}" if query else "",
            user_agent=_show(agent),
            app=app,
            status=self.status,
            response_ms=round(self.ms),
            accept_encoding=_show(accepts),
            content_encoding=_show(encoding),
            request_bytes=int(length) if length.isdigit() else self.received or 0,
            response_bytes=self.bytes_sent,
            flow_id=self.flow_id,
            event_type=self.feed,
            consumer=self._consumer,
        )

    @property
    def _consumer(self) -> ConsumerName | None:
        """The subscription or the consumer group that the path names."""
        named = self._scope.get("path_params") or {}
        if "subscription" in named:
            return ConsumerName(True, make_printable(named["subscription"]).replace("\0", ""))
        if "group" in named and "event_type" not in named:
            return ConsumerName(False, named["group"])
        return None

    def members(self) -> dict[str, Any]:
        """Return the members of the line besides its event; a token that was sent in a wrong place is hidden."""
        found: dict[str, Any] = {
            "method": self._method,
            "path": self._path,
            "status": self.status or "-",
            "flow_id": self.flow_id,
            "feed": self.feed,
            "consumer": self.consumer,
            "n": self.n,
            "partitions": self.partitions,
            "events": self.events,
            "bytes": self.bytes_sent if self.received is None else self.received,
            "ms": self.ms,
            "caller": "-" if self.caller is None else str(self.caller),
            "address": (self._scope.get("client") or ("-",))[0],
            "agent": self._agent,
            **self.refusal,
        }
        for name in _FREE_TEXTS & found.keys():
            text: str = found[name]
            if "pst_" in text or "eyJ" in text:
                found[name] = hide_tokens(text)
        return found


def _show(value: bytes) -> str:
    """Return a header as text; - if it is missing, as Nakadi writes that."""
    return value.decode("latin-1") if value else "-"


LogAccess = Callable[[AccessLine], None]
"""Logs the line of a request that has ended. It is called on the event loop, so it must not wait."""


def log_access(line: AccessLine) -> None:
    """Log *line* with structlog, as the application has configured it."""
    log = _log.debug if line.is_quiet else _log.info
    log(line.event, **line.members())


def note_reason(scope: Scope, error: Unauthenticated) -> None:
    """Note in the access line why the credential of a request is refused; the client does not learn the reason."""
    access: AccessLine | None = scope.get(_KEY)
    if access is not None:
        access.refusal |= {name: str(value)[:DETAIL_CHARS_MAX] for name, value in error.fields.items()}


def access_of(request: Request) -> AccessLine:
    """Return the access line of *request*."""
    return access_in(request.scope)


def access_in(scope: Scope) -> AccessLine:
    """Return the access line of the request of *scope*."""
    access: AccessLine = scope[_KEY]
    return access
