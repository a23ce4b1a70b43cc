"""Metrics of running processors for Prometheus, and its alerting rules.

Each scrape reads them from snapshots, so that a hanging handler is visible before its call ends.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from errno import EADDRNOTAVAIL
from importlib.resources import files
from socket import gaierror
from typing import Any, Final, TypeAlias
from wsgiref.types import WSGIApplication

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from penstock.errors import BadParameter
from penstock.processing.engine.tranche import Position
from penstock.processing.snapshot import ObservedProcessor, Snapshot, TrancheFigures, check_observed
from penstock.processing.stats import Histogram

__all__ = ["ProcessorMetrics", "alert_rules", "serve_metrics"]

HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65535
PATH: Final = "/metrics"
Labels: TypeAlias = tuple[str, ...]
Samples: TypeAlias = Iterable[tuple[Labels, float]]


class ProcessorMetrics(Collector):
    """Collector of processors' metrics for a registry; the label `group` has the processor's name.

    Args:
        processors: The first processors; `add` takes more.

    Raises:
        BadParameter: a value is no processor, or two have the same name.
    """

    def __init__(self, *processors: ObservedProcessor) -> None:
        self._processors: dict[str, ObservedProcessor] = {}
        for processor in processors:
            self.add(processor)

    def add(self, processor: ObservedProcessor) -> None:
        """Add a processor.

        Raises:
            BadParameter: it is no processor, or another one has its name.
        """
        check_observed("processors", processor)
        name = processor.name
        if self._processors.get(name, processor) is not processor:
            raise BadParameter(parameter="name", value=name, allowed="a name that no other processor here has")
        self._processors = {**self._processors, name: processor}

    def remove(self, processor: ObservedProcessor) -> None:
        """Remove a processor."""
        self._processors = {name: each for name, each in self._processors.items() if each is not processor}

    def collect(self) -> Iterable[Metric]:
        """Return the metrics as objects of Prometheus' library."""
        found = [processor.snapshot for processor in self._processors.values()]
        for name, says, labels, samples in _GAUGES:
            yield _fill(GaugeMetricFamily(name, says, labels=["group", *labels]), samples, found)
        for name, says, labels, samples in _COUNTERS:
            yield _fill(CounterMetricFamily(name, says, labels=["group", *labels]), samples, found)
        for name, says, labels, histograms in _HISTOGRAMS:
            yield _fill_histogram(HistogramMetricFamily(name, says, labels=["group", *labels]), histograms, found)


@contextmanager
def serve_metrics(port: int, *processors: ObservedProcessor, host: str = HOST) -> Iterator[str]:
    """Serve the metrics of processors at `/metrics` while the block runs; yield the address.

    `/` links to them; other paths are not found.

    Args:
        port: The port to listen on; 0: any free port.
        processors: The processors whose metrics are served.
        host: The address to listen on. There is no authorization.

    Raises:
        BadParameter: there is no processor, a value is none, or two have the same name; or the address cannot be
            listened on, with the reason.
    """
    if type(port) is not int or not 0 <= port <= PORT_MAX:
        allowed = f"from 0, which is any that is free, to {PORT_MAX}; processors follow it"
        raise BadParameter(parameter="port", value=port, allowed=allowed)
    if not processors:
        raise BadParameter(parameter="processors", value=(), allowed=f"at least one: serve_metrics({port}, processor)")
    registry = CollectorRegistry()
    registry.register(ProcessorMetrics(*processors))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise _explain_failure(port, host, error) from error
    server.set_app(_restrict_to_path(server.get_app()))  # The library answers at every path.
    try:
        yield f"http://{host}:{server.server_port}{PATH}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def alert_rules() -> str:
    """Return alerting rules for Prometheus, as the text of a rule file: when to warn, and when to page."""
    return (files(__package__) / "alerts.yml").read_text(encoding="utf-8")


def _restrict_to_path(app: WSGIApplication | None) -> WSGIApplication:
    """Return *app*, restricted to the path of metrics."""
    assert app is not None

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == PATH:
            return app(environ, start_response)
        status = "200 OK" if path in {"", "/"} else "404 Not Found"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"The metrics of processors are at {PATH}.\n".encode()]

    return answer


def _explain_failure(port: int, host: str, error: Exception) -> BadParameter:
    """Return the error that an address cannot be listened on, with the reason."""
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, gaierror) or getattr(error, "errno", None) == EADDRNOTAVAIL:
        return BadParameter(
            parameter="host", value=host, allowed=f"an address of this machine, such as {HOST}: {reason}"
        )
    allowed = f"one of {host} on which nothing else listens, and this process may, or 0 for any that is free: {reason}"
    return BadParameter(parameter="port", value=port, allowed=allowed)


def _fill(
    family: GaugeMetricFamily | CounterMetricFamily,
    samples: Callable[[Snapshot], Samples],
    found: Iterable[Snapshot],
) -> Metric:
    for snapshot in found:
        for labels, value in samples(snapshot):
            family.add_metric([snapshot.name, *labels], value)
    return family


def _fill_histogram(
    family: HistogramMetricFamily,
    histograms: Callable[[Snapshot], Iterable[tuple[Labels, Histogram]]],
    found: Iterable[Snapshot],
) -> HistogramMetricFamily:
    for snapshot in found:
        for labels, took in histograms(snapshot):
            buckets = [(f"{bound:g}", count) for bound, count in took.buckets()]
            family.add_metric([snapshot.name, *labels], [*buckets, ("+Inf", took.count)], took.sum)
    return family


def _list_busy_seconds(snapshot: Snapshot) -> Samples:
    for state, each in snapshot.busy_now().items():
        yield ("oldest", state), each.oldest_seconds
        yield ("newest", state), each.newest_seconds


def _make_tranche_samples(figure: Callable[[TrancheFigures], float | None]) -> Callable[[Snapshot], Samples]:
    """Return a function from a snapshot to a *figure* of each tranche that has it."""
    return lambda snapshot: [
        ((tranche.name,), value) for tranche in snapshot.tranches if (value := figure(tranche)) is not None
    ]


def _list_lag(snapshot: Snapshot) -> Samples:
    now = time.time()
    return _make_tranche_samples(lambda tranche: tranche.lag_seconds(now))(snapshot)


def _to_number(position: Position) -> int | None:
    """Return a position as a number, for a feed its offset without the epoch; None: it is not numeric.

    >>> _to_number(17), _to_number("2:17"), _to_number("part-3.json")
    (17, 17, None)
    """
    text = str(position).rpartition(":")[2]
    return int(text) if text.isdecimal() else None


_GAUGES: Final[list[tuple[str, str, list[str], Callable[[Snapshot], Samples]]]] = [
    ("penstock_processor_up", "Whether the processor runs.", [], lambda each: [((), each.is_running)]),
    (
        "penstock_processor_snapshot_age_seconds",
        "How old these figures are: half a second, unless its loop hangs. Of a processor that runs.",
        [],
        lambda each: [((), each.age_seconds())] if each.is_running else [],
    ),
    (
        "penstock_scheduler_streams",
        "Streams by state: active, ready, waiting, gapped, parked, synced.",
        ["state"],
        lambda each: [((state,), count) for state, count in each.streams.items()],
    ),
    (
        "penstock_scheduler_events",
        "Events of these streams that wait, or are with handlers.",
        ["state"],
        lambda each: [((state,), count) for state, count in each.events.items()],
    ),
    (
        "penstock_scheduler_busy_count",
        "Streams that are active, failing and stalled.",
        ["state"],
        lambda each: [((state,), figures.streams) for state, figures in each.busy.items()],
    ),
    (
        "penstock_scheduler_busy_attempts",
        "How often the events of streams that are failing or stalled were tried.",
        ["state"],
        lambda each: [((state,), figures.attempts) for state, figures in each.busy.items()],
    ),
    (
        "penstock_scheduler_busy_seconds",
        "For how long the oldest and the newest of them have been so; 0 where there is none.",
        ["kind", "state"],
        _list_busy_seconds,
    ),
    (
        "penstock_processor_parked_streams",
        "Streams that are set aside until somebody has them tried again.",
        [],
        lambda each: [((), each.streams["parked"])],
    ),
    (
        "penstock_processor_commits_failing",
        "How many commits in a row have failed.",
        [],
        lambda each: [((), each.commits_failing)],
    ),
    (
        "penstock_feed_position",
        "Where a tranche is resumed: all before it is handled.",
        ["tranche"],
        _make_tranche_samples(lambda each: _to_number(each.position)),
    ),
    (
        "penstock_feed_read_position",
        "How far a tranche is read.",
        ["tranche"],
        _make_tranche_samples(lambda each: _to_number(each.read)),
    ),
    (
        "penstock_feed_ahead_events",
        "Events in pages of a tranche that are read and not done.",
        ["tranche"],
        _make_tranche_samples(lambda each: each.events_ahead),
    ),
    (
        "penstock_feed_ahead_pages",
        "Pages of a tranche that are read and not done.",
        ["tranche"],
        _make_tranche_samples(lambda each: each.pages_ahead),
    ),
    (
        "penstock_feed_gap_events",
        "Events of a tranche that are not done, of those that its source had when it last answered.",
        ["tranche"],
        _make_tranche_samples(lambda each: each.gap),
    ),
    (
        "penstock_source_unanswered_seconds",
        "For how long the source has not answered: what it has received since is not known.",
        [],
        lambda each: [] if each.unanswered_seconds is None else [((), each.unanswered_seconds)],
    ),
    (
        "penstock_feed_lag_seconds",
        "The age of the oldest event of a tranche that is not done, as far as known; 0 where there is none.",
        ["tranche"],
        _list_lag,
    ),
    (
        "penstock_handler_gauge",
        "What handlers have set, under names of their own.",
        ["name"],
        lambda each: [((name,), value) for name, value in each.gauges.items()],
    ),
    (
        "penstock_spark_round_age_seconds",
        "For how long the round on Spark has gone on that is under way; 0 where none is.",
        [],
        lambda each: [] if each.rounds is None else [((), each.round_now_seconds())],
    ),
]
"""Name, description, labels beside the group, and samples of each gauge."""

_COUNTERS: Final[list[tuple[str, str, list[str], Callable[[Snapshot], Samples]]]] = [
    (
        "penstock_scheduler_handled_events",
        "Events that are done and were with handlers.",
        [],
        lambda each: [((), each.handled)],
    ),
    (
        "penstock_scheduler_repeated_events",
        "Events that came and had come before.",
        [],
        lambda each: [((), each.repeats)],
    ),
    (
        "penstock_scheduler_exceptions",
        "Calls of handlers that have failed, by the failure's tag.",
        ["tag"],
        lambda each: [((tag,), count) for tag, count in each.failures.items()],
    ),
    (
        "penstock_handler_counts",
        "What handlers have counted, under names of their own.",
        ["name"],
        lambda each: [((name,), count) for name, count in each.counts.items()],
    ),
    (
        "penstock_processor_commits",
        "Commits of positions, by what has come of them: ok, failed.",
        ["outcome"],
        lambda each: [((outcome,), count) for outcome, count in each.commits.items()],
    ),
    (
        "penstock_scheduler_cpu_seconds",
        "What its threads have computed, by what they do: schedule, read, handle, commit.",
        ["activity"],
        lambda each: [((activity,), seconds) for activity, seconds in each.cpu_seconds.items()],
    ),
    ("penstock_feed_pages", "Pages that were read.", ["tranche"], _make_tranche_samples(lambda each: each.pages_read)),
    (
        "penstock_feed_items",
        "Events that were read.",
        ["tranche"],
        _make_tranche_samples(lambda each: each.events_read),
    ),
    (
        "penstock_feed_bytes",
        "How much was read, as it came or lies there; of sources that know it.",
        ["tranche"],
        _make_tranche_samples(lambda each: each.bytes_read),
    ),
    (
        "penstock_category_ingested_events",
        "Events that were read, by event type.",
        ["category"],
        lambda each: [((name,), figures.ingested) for name, figures in each.categories.items()],
    ),
    (
        "penstock_category_handled_events",
        "Events of pages that are done, by event type.",
        ["category"],
        lambda each: [((name,), figures.completed) for name, figures in each.categories.items()],
    ),
]

_HISTOGRAMS: Final[list[tuple[str, str, list[str], Callable[[Snapshot], Iterable[tuple[Labels, Histogram]]]]]] = [
    (
        "penstock_scheduler_handler_seconds",
        "How long calls of handlers took, by what has come of them: ok, or a tag.",
        ["kind"],
        lambda each: [((kind,), took) for kind, took in each.took.items()],
    ),
    (
        "penstock_handler_observed",
        "What handlers have observed, under names of their own.",
        ["name"],
        lambda each: [((name,), found) for name, found in each.observed.items()],
    ),
    (
        "penstock_feed_read_seconds",
        "How long reads took that have brought something, what it was waited for included.",
        [],
        lambda each: [((), each.reads)],
    ),
    (
        "penstock_feed_ingest_seconds",
        "How long it took to take a page, or a part of one, in: to put its events with their streams.",
        [],
        lambda each: [((), each.ingests)],
    ),
    (
        "penstock_spark_round_seconds",
        "How long rounds on Spark took.",
        [],
        lambda each: [] if each.rounds is None else [((), each.rounds)],
    ),
]
