"""Numbers for Prometheus."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from penstock.errors import PenstockError
from penstock.hub.hub import Hub
from penstock.storage.store import Store

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
DROPWIZARD: Final = "4.0.0"
"""The version of the JSON format of Dropwizard's metrics library."""
_KINDS: Final = ("gauges", "counters", "histograms", "meters", "timers")
ROWS_COUNTED_MAX: Final = 10_000


class Tally:
    """How many events there have been of each event type, since the process began."""

    def __init__(self, name: str, says: str) -> None:
        self._name = name
        self._says = says
        self._guard = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, event_type: str, count: int) -> None:
        """Count so many more."""
        with self._guard:
            self._counts[event_type] += count

    def collect(self) -> Iterable[Metric]:
        """Return it as Prometheus' library takes it."""
        family = CounterMetricFamily(self._name, self._says, labels=["event_type"])
        with self._guard:
            counts = dict(self._counts)
        for event_type, count in counts.items():
            family.add_metric([event_type], count)
        yield family


class Backlog(NamedTuple):
    """What lies in the outbox's tables, each counted up to one more than `ROWS_COUNTED_MAX`."""

    waiting: int
    rejected: int

    def collect(self) -> Iterable[Metric]:
        """Return it as Prometheus' library takes it."""
        more = f"{ROWS_COUNTED_MAX + 1} stands for any number above {ROWS_COUNTED_MAX}"
        yield GaugeMetricFamily("penstock_outbox_rows", f"Rows that wait in the outbox; {more}.", self.waiting)
        yield GaugeMetricFamily("penstock_rejected_rows", f"Rows that were rejected; {more}.", self.rejected)


def backlog_of(store: Store) -> Backlog | None:
    """Count what lies in the outbox's tables; None where the database cannot be asked."""
    limit = ROWS_COUNTED_MAX + 1
    try:
        with store.read() as tx:
            return Backlog(*tx.outbox.count(limit))
    except PenstockError:
        return None


class Metrics:
    """The metrics of one app, which do not mix with those of another app in the process."""

    def __init__(self, hub: Callable[[], Hub | None]) -> None:
        self._hub = hub
        self.published = Tally("penstock_events_published", "Events stored on request.")
        self.served = Tally("penstock_feed_events_served", "Events sent to readers.")

    def text(self, backlog: Backlog | None) -> bytes:
        """Return all of them as Prometheus reads them; without a *backlog* where it is not known."""
        return generate_latest(self._registry(backlog))

    def members(self, backlog: Backlog | None) -> dict[str, Any]:
        """Return all of them in the JSON of Dropwizard, as Nakadi does; names have Prometheus' labels."""
        found: dict[str, Any] = {"version": DROPWIZARD, **{kind: {} for kind in _KINDS}}
        for family in self._registry(backlog).collect():
            kind, member = ("counters", "count") if family.type == "counter" else ("gauges", "value")
            for sample in family.samples:
                labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
                found[kind][f"{sample.name}{{{labels}}}" if labels else sample.name] = {member: int(sample.value)}
        return found

    def _registry(self, backlog: Backlog | None) -> CollectorRegistry:
        registry = CollectorRegistry()
        for each in (self.published, self.served, self, backlog):
            if each is not None:
                registry.register(each)
        return registry

    def collect(self) -> Iterable[Metric]:
        """Return the gauges as Prometheus' library takes them."""
        hub = self._hub()
        yield GaugeMetricFamily("penstock_waiters", "Readers waiting for events.", hub.log.watch.waiting if hub else 0)
