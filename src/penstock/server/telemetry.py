"""Telemetry: a line of the access log for each request, and metrics for Prometheus."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.requests import Request
from starlette.types import Message, Scope, Send

from penstock.errors import PenstockError
from penstock.hub.hub import Hub
from penstock.storage.store import Store

QUIET: Final = frozenset({"/health", "/health/live", "/health/ready", "/metrics"})
"""Paths that machines poll: their lines are logged at level debug."""
DETAIL_CHARS_MAX: Final = 2_000
"""A line of the log has at most so much of a problem's detail."""
_KEY: Final = "penstock.access"
_log: Final = structlog.get_logger("penstock.access")


class AccessLine:
    """The line of one request in the access log. Handlers set the attributes that only they know."""

    __slots__ = (
        "_closes",
        "_method",
        "_path",
        "_root",
        "_send",
        "_started_at",
        "bytes_sent",
        "consumer",
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
        "status",
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
        self.ended_at = 0.0
        self.ms = 0.0
        scope[_KEY] = self

    async def send(self, event: Message) -> None:
        """Send an ASGI event and count its bytes; add the flow id to the headers of the answer."""
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
        """Note the code and the detail of the error that ends the request, cut at `DETAIL_CHARS_MAX`."""
        self.refusal = {"code": error.code, "detail": error.detail[:DETAIL_CHARS_MAX]}

    def end(self) -> None:
        """Note that the request has ended."""
        self.ended_at = time.time()
        self.ms = round((time.perf_counter() - self._started_at) * 1000, 1)

    @property
    def is_quiet(self) -> bool:
        """Whether the path is one that machines poll, so that the line is of level debug instead of info."""
        return self._path.removeprefix(self._root) in QUIET

    def members(self) -> dict[str, Any]:
        """Return the members of the line besides its event."""
        return {
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
            **self.refusal,
        }


LogAccess = Callable[[AccessLine], None]
"""Logs the line of a request that has ended. It is called on the event loop, so it must not wait."""


def log_access(line: AccessLine) -> None:
    """Log *line* with structlog, as the application has configured it."""
    log = _log.debug if line.is_quiet else _log.info
    log(line.event, **line.members())


def access_of(request: Request) -> AccessLine:
    """Return the access line of *request*."""
    access: AccessLine = request.scope[_KEY]
    return access


METRICS_MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
DROPWIZARD: Final = "4.0.0"
"""The version of the JSON format of Dropwizard's metrics library."""
_KINDS: Final = ("gauges", "counters", "histograms", "meters", "timers")
ROWS_COUNTED_MAX: Final = 10_000


class EventCounter:
    """Counts events by event type, since the process began."""

    def __init__(self, name: str, says: str) -> None:
        self._name = name
        self._says = says
        self._guard = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, event_type: str, count: int) -> None:
        """Add *count* events of *event_type*."""
        with self._guard:
            self._counts[event_type] += count

    def collect(self) -> Iterable[Metric]:
        """Return the counter for Prometheus' library."""
        family = CounterMetricFamily(self._name, self._says, labels=["event_type"])
        with self._guard:
            counts = dict(self._counts)
        for event_type, count in counts.items():
            family.add_metric([event_type], count)
        yield family


class OutboxCounts(NamedTuple):
    """The rows of the outbox's tables, each counted up to one more than `ROWS_COUNTED_MAX`."""

    waiting: int
    rejected: int

    def collect(self) -> Iterable[Metric]:
        """Return the gauges for Prometheus' library."""
        more = f"{ROWS_COUNTED_MAX + 1} stands for any number above {ROWS_COUNTED_MAX}"
        yield GaugeMetricFamily("penstock_outbox_rows", f"Rows that wait in the outbox; {more}.", self.waiting)
        yield GaugeMetricFamily("penstock_rejected_rows", f"Rows that were rejected; {more}.", self.rejected)


def count_outbox(store: Store) -> OutboxCounts | None:
    """Count the rows of the outbox's tables; return None if the database cannot be asked."""
    limit = ROWS_COUNTED_MAX + 1
    try:
        with store.read() as tx:
            return OutboxCounts(*tx.outbox.count(limit))
    except PenstockError:
        return None


class Metrics:
    """The metrics of one application, apart from those of another one in the same process."""

    def __init__(self, hub: Callable[[], Hub | None]) -> None:
        self._hub = hub
        self.published = EventCounter("penstock_events_published", "Events stored on request.")
        self.served = EventCounter("penstock_feed_events_served", "Events sent to readers.")

    def text(self, backlog: OutboxCounts | None) -> bytes:
        """Return all metrics in Prometheus' text format, without the *backlog* if it is None."""
        return generate_latest(self._registry(backlog))

    def members(self, backlog: OutboxCounts | None) -> dict[str, Any]:
        """Return all metrics in the JSON of Dropwizard, as Nakadi does; names include Prometheus' labels."""
        found: dict[str, Any] = {"version": DROPWIZARD, **{kind: {} for kind in _KINDS}}
        for family in self._registry(backlog).collect():
            kind, member = ("counters", "count") if family.type == "counter" else ("gauges", "value")
            for sample in family.samples:
                labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
                found[kind][f"{sample.name}{{{labels}}}" if labels else sample.name] = {member: int(sample.value)}
        return found

    def _registry(self, backlog: OutboxCounts | None) -> CollectorRegistry:
        registry = CollectorRegistry()
        for each in (self.published, self.served, self, backlog):
            if each is not None:
                registry.register(each)
        return registry

    def collect(self) -> Iterable[Metric]:
        """Return the gauges for Prometheus' library."""
        hub = self._hub()
        yield GaugeMetricFamily("penstock_waiters", "Readers waiting for events.", hub.log.watch.waiting if hub else 0)
