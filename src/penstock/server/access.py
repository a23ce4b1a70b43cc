"""The access log: one line for each request, whatever becomes of it, written in this one place."""

import time
from typing import Final

import structlog
from starlette.requests import Request
from starlette.types import Message, Scope, Send

from penstock.errors import PenstockError

QUIET: Final = frozenset({"/health", "/health/live", "/health/ready", "/metrics"})
"""Machines ask for these all the time: their lines are for debugging."""
DETAIL_CHARS_MAX: Final = 2_000
"""How much of an answer's detail a line of the log has."""
_KEY: Final = "penstock.access"
_log: Final = structlog.get_logger("penstock.access")


class Access:
    """What the line of one request says; the handlers fill in what they alone know."""

    __slots__ = (
        "_closes",
        "_method",
        "_path",
        "_root",
        "_send",
        "_started_at",
        "bytes_sent",
        "consumer",
        "event",
        "events",
        "feed",
        "flow_id",
        "n",
        "partitions",
        "received",
        "refusal",
        "status",
    )

    def __init__(self, scope: Scope, send: Send, flow_id: str, *, closes: bool = False) -> None:
        """Begin the line of the request of *scope*, which `access_of` finds from now on.

        *closes*: the answer asks the server to close the connection.
        """
        self._closes = closes
        self._started_at = time.perf_counter()
        self._method: str = scope["method"]
        self._path: str = scope["path"]
        self._root: str = scope.get("root_path", "")
        self._send = send
        self.flow_id = flow_id
        self.status = 0
        self.bytes_sent = 0
        self.event = "request"
        self.feed = "-"
        self.consumer = "-"
        self.n = 0
        self.partitions = ""
        self.events = 0
        self.received: int | None = None
        self.refusal: dict[str, str] = {}
        scope[_KEY] = self

    async def send(self, event: Message) -> None:
        """Pass the ASGI event on, counted once it has gone; every answer says by which flow id it is known."""
        if event["type"] == "http.response.start":
            headers = [*event.get("headers", ()), (b"x-flow-id", self.flow_id.encode("ascii"))]
            if self._closes:
                headers.append((b"connection", b"close"))
            event = {**event, "headers": headers}
        await self._send(event)
        if event["type"] == "http.response.body":
            self.bytes_sent += len(event.get("body", b""))
        elif event["type"] == "http.response.start":
            self.status = event["status"]

    def refuse(self, error: PenstockError) -> None:
        """Note why nothing, or no more, was done; of what is said at length, the beginning."""
        self.refusal = {"code": error.code, "detail": error.detail[:DETAIL_CHARS_MAX]}

    def write(self) -> None:
        """Write the line."""
        tell = _log.debug if self._path.removeprefix(self._root) in QUIET else _log.info
        tell(
            self.event,
            method=self._method,
            path=self._path,
            status=self.status or "-",
            flow_id=self.flow_id,
            feed=self.feed,
            consumer=self.consumer,
            n=self.n,
            partitions=self.partitions,
            events=self.events,
            bytes=self.bytes_sent if self.received is None else self.received,
            ms=round((time.perf_counter() - self._started_at) * 1000, 1),
            **self.refusal,
        )


def access_of(request: Request) -> Access:
    """Return the access line of *request*."""
    access: Access = request.scope[_KEY]
    return access
