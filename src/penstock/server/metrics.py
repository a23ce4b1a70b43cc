"""Numbers for Prometheus."""

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily

from penstock.hub.hub import Hub

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one app, in a registry of their own so that several apps in a process do not mix."""

    def __init__(self, hub: Callable[[], Hub | None]) -> None:
        self._registry = CollectorRegistry()
        self.published = Counter(
            "penstock_events_published", "Events stored on request.", ["event_type"], registry=self._registry
        )
        self.served = Counter(
            "penstock_feed_events_served", "Events sent to readers.", ["event_type"], registry=self._registry
        )
        self._registry.register(_Waiters(hub))

    def text(self) -> bytes:
        """Return all of them as Prometheus reads them."""
        return generate_latest(self._registry)


class _Waiters:
    def __init__(self, hub: Callable[[], Hub | None]) -> None:
        self._hub = hub

    def collect(self) -> Iterable[Metric]:
        hub = self._hub()
        yield GaugeMetricFamily("penstock_waiters", "Readers waiting for events.", hub.watch().waiting if hub else 0)

    def describe(self) -> Iterable[Metric]:
        return self.collect()
