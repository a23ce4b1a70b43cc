"""A sample of every metric that a hub can have, with its labels."""

from pathlib import Path
from tempfile import TemporaryDirectory

from prometheus_client import Metric

from penstock.core.access import Caller
from penstock.core.events.event import NewEvent
from penstock.core.groups.groups import CURSOR_SET
from penstock.hub.admin.measuring import Measurement
from penstock.hub.admin.permissions import AccessPolicy
from penstock.hub.hub import Hub
from penstock.hub.log.retention import Overtaken
from penstock.server.metrics import DatabaseFigures, Metrics
from penstock.server.telemetry import AccessLine
from penstock.storage import open_store
from penstock.storage.cold.manifest import ColdMeasurement, ColdMeasurements
from penstock.storage.groups import GroupMeasurement, GroupMeasurements, ParkedMeasurement, ParkedMeasurements
from penstock.storage.log.outbox import OutboxCount
from penstock.storage.registry import EventTypeMeasurement, EventTypeMeasurements
from penstock.storage.store import ConnectionCounts, ReplicaMeasurement, StoreSpace
from penstock.testing.factories import an_event_type

MEASUREMENT = Measurement(
    at=0,
    seconds=0.1,
    groups=GroupMeasurements([GroupMeasurement("mailer", CURSOR_SET, "shop", 7, 0, 0, 1, 0)], 1),
    event_types=EventTypeMeasurements([EventTypeMeasurement("order.placed", 9, 0, 100.0)], 1),
    parked=ParkedMeasurements([ParkedMeasurement("s1", "subscription", "shop", 2)], 1),
    sessions=1,
    expired=5,
    space=StoreSpace(1, 2, 3),
    cold=ColdMeasurements([ColdMeasurement("order.placed", 2, 300)], 1),
    erasing=7,
)


def collect_every_metric() -> dict[str, set[str]]:
    """Return the labels of each metric of a hub, by the name that it has in Prometheus."""
    with TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{Path(folder) / 'hub.db'}", (Path(folder) / "cold").as_uri(), has_tables=True)
        store.migrate()
        hub = Hub(store)
        try:
            hub.registry.create(an_event_type("order.placed"))
            hub.log.publish("order.placed", [NewEvent.of(b"{}")])
            hub.admin.retention.expired["order.placed"] += 2
            hub.cold.sealer.sealed["order.placed"] += 2
            hub.admin.retention.overtaken[Overtaken("order.placed", "mailer")] = 1
            hub.admin.tokens.create(Caller("service", "mailer"), expires_in_seconds=60)
            hub.admin.permissions.enforce(AccessPolicy())
            store.count_connections = lambda: ConnectionCounts(1, 1, 10, 0)  # type: ignore[method-assign]
            store.replicas = _Replicas()  # type: ignore[assignment]
            return _collect(Metrics(lambda: hub))
        finally:
            hub.stop()


class _Replicas:
    """One replica, which is asked for nothing."""

    missed = 1

    def measure(self) -> list[ReplicaMeasurement]:
        return [ReplicaMeasurement("postgresql://db2/shop", True, 0.5, 2)]

    def close(self) -> None:
        """Do nothing."""


def _collect(metrics: Metrics) -> dict[str, set[str]]:
    metrics.published.add("order.placed", 1)
    metrics.served.add("order.placed", 1)
    line = AccessLine({"type": "http", "method": "GET", "path": "/"}, _send, "flow")
    line.status = 200
    metrics.requests.add(line)
    metrics.keys_age = lambda: 60.0
    metrics.certificate_seconds_left = lambda: 86_400.0
    families: list[Metric] = list(metrics.collect_all(DatabaseFigures(OutboxCount(1, 1, 0), MEASUREMENT)))
    return {
        _name_of(family): {label for sample in family.samples for label in sample.labels} - {"le"}
        for family in families
        if family.name.startswith("penstock_")
    }


def _name_of(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


async def _send(_: object) -> None:
    """Send nothing."""
