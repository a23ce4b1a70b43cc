"""Metrics of one hub process for Prometheus.

The process counts as requests end and events are appended; all else is read when Prometheus asks.
"""

import asyncio
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from penstock.hub.admin.measuring import MEASURED_MAX, ROWS_COUNTED_MAX, Measurement
from penstock.hub.committer import OTHERS, VOLUMES_MAX
from penstock.hub.hub import Hub
from penstock.hub.log.retention import RetentionRunner
from penstock.server.telemetry import NO_ROUTE, AccessLine
from penstock.storage.admin import StoredToken
from penstock.storage.cold.manifest import ColdMeasurements
from penstock.storage.groups import GroupMeasurement
from penstock.storage.log.outbox import OutboxCount
from penstock.storage.store import ConnectionCounts, Replicas, StoreSpace

METRICS_MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
DROPWIZARD: Final = "4.0.0"
"""The version of the JSON format of Dropwizard's metrics library."""
_KINDS: Final = ("gauges", "counters", "histograms", "meters", "timers")


def _escape(value: str) -> str:
    """Return the value of a label as Prometheus' text has it between quotes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class EventCounter:
    """Counts events by event type, since the process began; the first `VOLUMES_MAX` have a count of their own."""

    def __init__(self, name: str, says: str) -> None:
        self._name = name
        self._says = says
        self._guard = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, event_type: str, count: int) -> None:
        """Add *count* events of *event_type*."""
        with self._guard:
            name = event_type if event_type in self._counts or len(self._counts) < VOLUMES_MAX else OTHERS
            self._counts[name] += count

    def collect(self) -> Iterable[Metric]:
        """Return the counter for Prometheus' library."""
        with self._guard:
            counts = dict(self._counts)
        yield _make_counter(self._name, self._says, counts)


STEP_SECONDS: Final = 0.000_25
STEPS: Final = 17
BOUNDS: Final = tuple(STEP_SECONDS * 2**step for step in range(STEPS))
"""The bounds of the histogram of requests: from a quarter of a millisecond to 16 seconds, each twice the one before."""


class _RouteTimes:
    """The requests of one route."""

    __slots__ = ("buckets", "statuses", "sum")

    def __init__(self) -> None:
        self.buckets = [0] * (STEPS + 1)
        self.sum = 0.0
        self.statuses: dict[int, int] = {}


class RequestTimes:
    """Counts requests by route, status and duration.

    `add` is called for each request, on the event loop: it raises three numbers.
    """

    def __init__(self) -> None:
        self._routes: dict[str, _RouteTimes] = {}

    def add(self, access: AccessLine) -> None:
        """Count the request of *access*, which has ended."""
        times = self._routes.get(access.route)
        if times is None:
            times = self._routes[access.route] = _RouteTimes()
        status = access.status
        times.statuses[status] = times.statuses.get(status, 0) + 1
        if status:
            seconds = access.seconds_to_answer
            times.sum += seconds
            step = int(seconds / STEP_SECONDS).bit_length()
            times.buckets[min(STEPS, step)] += 1

    def collect(self) -> Iterable[Metric]:
        """Return the metrics for Prometheus' library."""
        counts = CounterMetricFamily(
            "penstock_requests",
            "Requests that have ended, by route and status; 0: the client left before there was one.",
            labels=["method", "route", "status"],
        )
        took = HistogramMetricFamily(
            "penstock_request_seconds",
            "How long requests took up to the head of their answer, without waiting for events.",
            labels=["method", "route"],
        )
        for name, times in list(self._routes.items()):
            labels = name.split(" ") if name != NO_ROUTE else ["", NO_ROUTE]
            for status, count in list(times.statuses.items()):
                counts.add_metric([*labels, str(status)], count)
            below, buckets = 0, []
            for bound, count in zip((*BOUNDS, float("inf")), tuple(times.buckets), strict=True):
                below += count
                buckets.append(("+Inf" if bound == float("inf") else f"{bound:g}", below))
            took.add_metric(labels, buckets, times.sum)
        yield counts
        yield took


TICK_SECONDS: Final = 0.010
"""The timer's interval; what is measured can be longer than a stall by so much."""
IDLE_TICKS: Final = 100
"""After so many ticks without a request the timer stops: a hub that waits does not wake for it."""
_SCHEDULING: Final = "/proc/thread-self/schedstat"
"""Linux's account of the calling thread: nanoseconds on a processor, nanoseconds that it waited for one, turns."""


class Clocks(NamedTuple):
    """Times in seconds, each from some beginning."""

    elapsed: float
    used: float
    """Processor time of all threads of this process."""
    waited: float
    """In which the calling thread waited for a processor that other threads or programs used."""


class ThreadClocks:
    """The clocks of the calling thread; on other systems than Linux it is not known what it has waited."""

    def __init__(self) -> None:
        self._thread = 0
        self._account: int | None = None
        self._close: Callable[[], object] = lambda: None

    def __call__(self) -> Clocks:
        """Return the times now."""
        if self._thread != threading.get_ident():
            self._open()
        waited = 0.0
        with suppress(OSError):  # The thread may be another one of the same number.
            if self._account is not None:
                waited = int(os.pread(self._account, 80, 0).split()[1]) / 1e9
        return Clocks(time.perf_counter(), time.process_time(), waited)

    def _open(self) -> None:
        """Open the account of this thread, so that each look at it is one call of the system."""
        self._close()
        self._thread, self._account = threading.get_ident(), None
        with suppress(OSError):
            self._account = os.open(_SCHEDULING, os.O_RDONLY | os.O_CLOEXEC)
            self._close = weakref.finalize(self, os.close, self._account)


class StallWatch:
    """Measures how long the event loop has kept other requests waiting.

    That is the time between two ticks of a timer, while requests come: in it the loop's thread did something else, or
    another thread had the interpreter's lock. It leaves out what the thread waited for a processor, and is never more
    than the processor time that the process used, so that other programs do not count.
    """

    def __init__(self, clocks: Callable[[], Clocks] | None = None) -> None:
        """Measure by *clocks*, which are read in the thread of the loop."""
        self.seconds_max = 0.0
        """The longest time so far."""
        self._clocks = clocks or ThreadClocks()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop on which the timer runs; None if it does not."""
        self._idle_ticks = 0
        self._last = Clocks(0, 0, 0)

    @property
    def runs(self) -> bool:
        """True while the timer runs."""
        return self._loop is not None

    def notice(self) -> None:
        """Note that a request has come; called on the event loop."""
        self._idle_ticks = 0
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._last = self._clocks()
            loop.call_later(TICK_SECONDS, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return  # The application is served by another loop now.
        last, now = self._last, self._clocks()
        held = now.elapsed - last.elapsed - (now.waited - last.waited)
        self.seconds_max = max(self.seconds_max, min(held, now.used - last.used))
        self._last = now
        self._idle_ticks += 1
        if self._idle_ticks < IDLE_TICKS:
            loop.call_later(TICK_SECONDS, self._tick, loop)
        else:
            self._loop = None


class _Gauge(NamedTuple):
    """Collects one gauge without labels."""

    name: str
    says: str
    value: float

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(self.name, self.says, self.value)


class _Outbox:
    """Collects the gauges of the outbox's tables; rows are counted up to one more than `ROWS_COUNTED_MAX`."""

    def __init__(self, count: OutboxCount) -> None:
        self._count = count

    def collect(self) -> Iterable[Metric]:
        more = f"{ROWS_COUNTED_MAX + 1} stands for any number above {ROWS_COUNTED_MAX}"
        count = self._count
        yield GaugeMetricFamily("penstock_outbox_rows", f"Rows that wait in the outbox; {more}.", count.waiting)
        yield GaugeMetricFamily("penstock_rejected_rows", f"Rows that were rejected; {more}.", count.rejected)
        if count.since is not None or not count.waiting:
            age = 0.0 if count.since is None else max(0, time.time_ns() // 1000 - count.since) / 1e6
            yield GaugeMetricFamily(
                "penstock_outbox_oldest_seconds", "The age of the oldest row that waits in the outbox; 0: none.", age
            )


class DatabaseFigures(NamedTuple):
    """Figures from the database for metrics."""

    outbox: OutboxCount | None = None
    """None: the database did not answer in time."""
    measurement: Measurement | None = None
    """None: the database did not answer in time, and has not lately."""


class Metrics:
    """The metrics of one application, apart from those of another one in the same process."""

    def __init__(self, hub: Callable[[], Hub | None]) -> None:
        self._hub = hub
        self._process = ProcessCollector(registry=None)
        self.published = EventCounter("penstock_events_published", "Events stored on request.")
        self.served = EventCounter("penstock_feed_events_served", "Events sent to readers.")
        self.requests = RequestTimes()
        self.stalls = StallWatch()
        self.keys_age: Callable[[], float | None] = lambda: None
        """Returns how long ago keys of an issuer of JSON Web Tokens were loaded; None: none are needed."""
        self.certificate_seconds_left: Callable[[], float] | None = None
        """Returns how long the server's certificate is valid; None: it has none, or another program has it."""

    def text(self, database: DatabaseFigures) -> bytes:
        """Return all metrics in Prometheus' text format, without what *database* does not have."""
        return generate_latest(self._registry(database))

    def members(self, database: DatabaseFigures) -> dict[str, Any]:
        """Return all metrics in the JSON of Dropwizard, as Nakadi does; names include Prometheus' labels."""
        found: dict[str, Any] = {"version": DROPWIZARD, **{kind: {} for kind in _KINDS}}
        for family in self.collect_all(database):
            for sample in family.samples:
                counts = family.type == "counter" or sample.name.endswith(("_bucket", "_count"))
                kind, member = ("counters", "count") if counts else ("gauges", "value")
                labels = ",".join(f'{name}="{_escape(value)}"' for name, value in sample.labels.items())
                value = int(sample.value) if float(sample.value).is_integer() else sample.value
                found[kind][f"{sample.name}{{{labels}}}" if labels else sample.name] = {member: value}
        return found

    def collect_all(self, database: DatabaseFigures) -> Iterable[Metric]:
        """Return all metrics for Prometheus' library, without what *database* does not have."""
        return self._registry(database).collect()

    def _registry(self, database: DatabaseFigures) -> CollectorRegistry:
        registry = CollectorRegistry()
        parts: list[Any] = [self.published, self.served, self.requests, self, self._process]
        if self._hub() is not None:
            is_up = database.outbox is not None
            parts.append(_Gauge("penstock_database_up", "Whether the database answers within two seconds.", is_up))
        if database.outbox is not None:
            parts.append(_Outbox(database.outbox))
        if database.measurement is not None:
            parts.append(_Measured(database.measurement))
        for each in parts:
            registry.register(each)
        return registry

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of the process's hub for Prometheus' library."""
        hub = self._hub()
        yield GaugeMetricFamily("penstock_waiters", "Readers waiting for events.", hub.log.watch.waiting if hub else 0)
        yield GaugeMetricFamily(
            "penstock_event_loop_stall_seconds_max",
            "The longest time that the event loop has kept requests waiting since the start, other programs left out.",
            self.stalls.seconds_max,
        )
        keys_age = self.keys_age()
        if keys_age is not None:
            yield GaugeMetricFamily(
                "penstock_issuer_keys_age_seconds",
                "The time since the keys that check JSON Web Tokens were loaded last.",
                keys_age,
            )
        if self.certificate_seconds_left is not None:
            yield GaugeMetricFamily(
                "penstock_certificate_expires_seconds",
                "The time until the hub's TLS certificate expires; less than 0 once it has.",
                self.certificate_seconds_left(),
            )
        if hub is None:
            return
        yield from _collect_tokens(hub.admin.tokens.known, time.time_ns() // 1000)
        appended = hub.committer.volumes()
        yield _make_counter(
            "penstock_events_appended",
            "Events that this process has appended, on request or from the outbox.",
            {name: volume.events for name, volume in appended.items()},
        )
        yield _make_counter(
            "penstock_events_appended_bytes",
            "Bytes of the data of these events.",
            {name: volume.bytes for name, volume in appended.items()},
        )
        yield from _collect_retention(hub.admin.retention)
        yield from _collect_cold_tier(hub)
        yield GaugeMetricFamily(
            "penstock_streams",
            "Streams of subscriptions that this process sends.",
            len(hub.subscriptions.local_streams),
        )
        yield GaugeMetricFamily(
            "penstock_publish_queue_requests", "Requests that wait for the next commit.", hub.committer.queued
        )
        yield _make_counter(
            "penstock_activity_dropped",
            "Requests, publishes and sends that are missing in the hub's own event types.",
            hub.activity.dropped,
        )
        yield from _collect_connections(hub.admin.database.count_connections())
        yield from _collect_replicas(hub.admin.database.replicas)


def _collect_retention(retention: RetentionRunner) -> Iterable[Metric]:
    yield _make_counter("penstock_expired_events", "Events that this process has had expire.", retention.expired.copy())
    overtaken = CounterMetricFamily(
        "penstock_overtaken_events",
        "Those of them that a consumer group had not committed, of event types that wait for it.",
        labels=["event_type", "group"],
    )
    for each, events in list(retention.overtaken.items())[:MEASURED_MAX]:
        overtaken.add_metric(each, events)
    yield overtaken


def _collect_cold_tier(hub: Hub) -> Iterable[Metric]:
    """Return what this process does with the cold tier; nothing if there is none."""
    if hub.cold.failures is None:
        return
    sealed = dict(list(hub.cold.sealer.sealed.items())[:MEASURED_MAX])
    yield _make_counter("penstock_sealed_events", "Events that this process has sealed in files.", sealed)
    yield CounterMetricFamily(
        "penstock_cold_failed_reads",
        "Reads of the cold tier that failed: the storage did not answer, or a file is damaged.",
        hub.cold.failures,
    )
    if hub.cold.table_failures is not None:
        yield CounterMetricFamily(
            "penstock_cold_failed_table_updates",
            "Updates of tables of the cold tier that failed: their logs could not be read or written.",
            hub.cold.table_failures,
        )
    since = hub.cold.sealer.overdue_since
    yield GaugeMetricFamily(
        "penstock_cold_overdue_seconds",
        "For how long the oldest event that is not sealed should have been; 0: none should have been.",
        0.0 if since is None else max(0, time.time_ns() // 1000 - since) / 1e6,
    )


def _collect_connections(connections: ConnectionCounts) -> Iterable[Metric]:
    family = GaugeMetricFamily(
        "penstock_database_connections", "Connections of the pool to the database.", labels=["state"]
    )
    family.add_metric(["idle"], connections.idle)
    family.add_metric(["used"], max(0, connections.open - connections.idle))
    yield family
    if connections.most is not None:
        yield GaugeMetricFamily(
            "penstock_database_connections_max", "The most connections that the pool may have.", connections.most
        )
    yield GaugeMetricFamily(
        "penstock_database_connections_wanted", "Threads that wait for a connection.", connections.waiting
    )


def _collect_replicas(replicas: Replicas | None) -> Iterable[Metric]:
    """Return how replicas do; nothing if the hub has none."""
    if replicas is None:
        return
    is_up = GaugeMetricFamily(
        "penstock_replica_up", "Whether a replica of the database is used for reads.", labels=["replica"]
    )
    lag = GaugeMetricFamily(
        "penstock_replica_lag_seconds",
        "The age of the last moment of the primary whose commits a replica has all replayed.",
        labels=["replica"],
    )
    reads = CounterMetricFamily(
        "penstock_chunk_reads",
        "Chunks of events that were read for consumers who use replicas, by replica; primary: no replica had them.",
        labels=["source"],
    )
    reads.add_metric(["primary"], replicas.missed)
    for each in replicas.measure():
        is_up.add_metric([each.url], each.is_used)
        reads.add_metric([each.url], each.reads)
        if each.lag_seconds is not None:
            lag.add_metric([each.url], each.lag_seconds)
    yield from (is_up, lag, reads)


EXPIRED_SECONDS: Final = 86_400.0
"""A token that has expired is shown for so long: its caller had better have another one by then, or be gone."""


def _collect_tokens(tokens: Iterable[StoredToken], now: int) -> Iterable[Metric]:
    """Return when callers are left without a valid token, of the callers for whom that comes first.

    Of the tokens of one caller the last to expire counts: the others were rotated.
    """
    left: dict[str, tuple[float, float]] = {}
    for each in tokens:
        seconds = lifetime = float("inf")
        if each.expires_at is not None:
            seconds, lifetime = (each.expires_at - now) / 1e6, (each.expires_at - each.created_at) / 1e6
        caller = str(each.caller)
        left[caller] = max((seconds, lifetime), left.get(caller, (seconds, lifetime)))
    found = sorted((*both, name) for name, both in left.items() if -EXPIRED_SECONDS < both[0] < float("inf"))
    expiry = GaugeMetricFamily(
        "penstock_token_expires_seconds",
        "The time until the last token of a caller expires; less than 0 once it has.",
        labels=["name"],
    )
    lifetimes = GaugeMetricFamily(
        "penstock_token_lifetime_seconds",
        "How long that token is valid in all, from its creation on.",
        labels=["name"],
    )
    for seconds, lifetime, name in found[:MEASURED_MAX]:
        expiry.add_metric([name], seconds)
        lifetimes.add_metric([name], lifetime)
    yield from (expiry, lifetimes)


_GROUP_LABELS: Final = ["group", "kind", "application"]
_GROUP_GAUGES: Final[list[tuple[str, str, Callable[[GroupMeasurement, int], float]]]] = [
    ("penstock_group_gap_events", "Retained events that a group has not committed.", lambda each, _: each.gap),
    (
        "penstock_group_lag_seconds",
        "The age of the oldest event that a group has not committed; 0 if there is none.",
        lambda each, now: 0.0 if each.received_at is None else max(0, now - each.received_at) / 1e6,
    ),
    (
        "penstock_group_commit_age_seconds",
        "The time since a group has last committed, or was reset.",
        lambda each, now: max(0, now - each.committed_at) / 1e6,
    ),
    (
        "penstock_group_standing_seconds",
        "For how long events have waited for a group in a partition where it has committed nothing meanwhile.",
        lambda each, now: 0.0 if each.stands_since is None else max(0, now - each.stands_since) / 1e6,
    ),
    (
        "penstock_group_stuck_partitions",
        "Partitions in which a group cannot continue from its position without a reset.",
        lambda each, _: each.stuck,
    ),
]


class _Measured:
    """Collects the gauges of a measurement. Ages are those that it has found: what has happened since is not known."""

    def __init__(self, measurement: Measurement) -> None:
        self._measurement = measurement

    def collect(self) -> Iterable[Metric]:
        found, now = self._measurement, time.time_ns() // 1000
        yield GaugeMetricFamily(
            "penstock_measurement_age_seconds",
            "How old the figures are for which the database is asked.",
            max(0, now - found.at) / 1e6,
        )
        yield GaugeMetricFamily("penstock_measurement_seconds", "How long the database took to answer.", found.seconds)
        if found.groups is not None:
            yield from self._collect_groups()
        if found.event_types is not None:
            yield from self._collect_event_types()
        if found.parked is not None:
            yield from self._collect_parked()
        if found.space is not None:
            yield from _collect_space(found.space)
        if found.cold is not None and found.cold.total:
            yield from _collect_files(found.cold)
        if found.expired is not None:
            yield GaugeMetricFamily(
                "penstock_expired_events_left", "Events that have expired and are still to be deleted.", found.expired
            )
        if found.erasing is not None:
            yield GaugeMetricFamily(
                "penstock_oldest_erasure_seconds",
                "How long ago the oldest erasure that is not finished was requested; 0: all are finished.",
                max(0, found.erasing) / 1e6,
            )
        if found.sessions is not None:
            yield GaugeMetricFamily(
                "penstock_sessions", "Streams of subscriptions, of all hubs of the database.", found.sessions
            )

    def _collect_groups(self) -> Iterable[Metric]:
        found, at = self._measurement.groups, self._measurement.at
        assert found is not None
        for name, says, figure in _GROUP_GAUGES:
            family = GaugeMetricFamily(name, says, labels=_GROUP_LABELS)
            for each in found.groups:
                family.add_metric([each.name, each.kind, each.application], figure(each, at))
            yield family
        yield from _count("groups", "Consumer groups with positions.", found.total, len(found.groups))

    def _collect_event_types(self) -> Iterable[Metric]:
        found, at = self._measurement.event_types, self._measurement.at
        assert found is not None
        events = GaugeMetricFamily(
            "penstock_event_type_events", "Retained events of an event type.", labels=["event_type"]
        )
        age = GaugeMetricFamily(
            "penstock_event_type_newest_age_seconds",
            "The age of the newest event of an event type.",
            labels=["event_type"],
        )
        size = GaugeMetricFamily(
            "penstock_event_type_bytes",
            "The size of the data of these events, estimated by that of the newest.",
            labels=["event_type"],
        )
        for each in found.event_types:
            events.add_metric([each.name], each.events)
            size.add_metric([each.name], each.events * (each.size or 0.0))
            if each.received_at is not None:
                age.add_metric([each.name], max(0, at - each.received_at) / 1e6)
        yield events
        yield size
        yield age
        yield from _count("event_types", "Event types.", found.total, len(found.event_types))

    def _collect_parked(self) -> Iterable[Metric]:
        found = self._measurement.parked
        assert found is not None
        keys = GaugeMetricFamily(
            "penstock_parked_keys",
            "Parked keys of a subscription, or parked streams of a processor.",
            labels=_GROUP_LABELS,
        )
        for each in found.groups:
            keys.add_metric([each.group, each.kind, each.application], each.keys)
        yield keys
        yield from _count("parked_groups", "Groups with parked keys or streams.", found.total, len(found.groups))


def _collect_files(cold: ColdMeasurements) -> Iterable[Metric]:
    files = GaugeMetricFamily("penstock_cold_files", "Files of the cold tier.", labels=["event_type"])
    size = GaugeMetricFamily("penstock_cold_bytes", "The size of these files.", labels=["event_type"])
    for each in cold.event_types:
        files.add_metric([each.event_type], each.files)
        size.add_metric([each.event_type], each.bytes)
    yield from (files, size)
    says = "Event types with files in the cold tier."
    yield from _count("cold_event_types", says, cold.total, len(cold.event_types))


def _collect_space(space: StoreSpace) -> Iterable[Metric]:
    yield GaugeMetricFamily("penstock_database_bytes", "The space that the database takes.", space.used)
    if space.free is not None:
        yield GaugeMetricFamily("penstock_disk_free_bytes", "Free space of the database's disk.", space.free)
    if space.size is not None:
        yield GaugeMetricFamily("penstock_disk_size_bytes", "The size of the database's disk.", space.size)


def _count(name: str, says: str, total: int, shown: int) -> Iterable[Metric]:
    yield GaugeMetricFamily(f"penstock_{name}", says, total)
    yield GaugeMetricFamily(
        f"penstock_{name}_left_out", f"How many of these have no figures here: there are {MEASURED_MAX}.", total - shown
    )


def _make_counter(name: str, says: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, says, labels=["event_type"])
    for event_type, count in counts.items():
        family.add_metric([event_type], count)
    return family
