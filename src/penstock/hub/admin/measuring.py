"""Monitors the database of a hub, for health checks and metrics."""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from penstock.errors import DatabaseUnavailable, Unavailable
from penstock.hub.admin.lag_history import SAMPLE_INTERVAL, LagHistory
from penstock.hub.background import Clock
from penstock.hub.subscriptions.sessions import LEASE_US
from penstock.storage.cold.manifest import ColdMeasurements
from penstock.storage.groups import GroupFilter, GroupMeasurements, ParkedMeasurements
from penstock.storage.log.outbox import OutboxCount
from penstock.storage.registry import EventTypeMeasurement, EventTypeMeasurements
from penstock.storage.store import ConnectionCounts, Replicas, Store, StoreSpace, Tx

MEASURED_MAX: Final = 100
"""Maximum number of groups and event types in a measurement: metrics have a time series for each."""
MEASURE_TIMEOUT: Final = 5.0
"""The database ends the statements of a measurement after so long; what they would have told is missing then."""
ROWS_COUNTED_MAX: Final = 10_000
"""The outbox's rows are counted up to one more than this."""
Part = TypeVar("Part")


class Measurement(NamedTuple):
    """Figures from the database at one time; a part is None if the database took too long to compute it."""

    at: int
    """The time, in microseconds since 1970, UTC."""
    seconds: float
    """How long it took to measure."""
    groups: GroupMeasurements | None
    event_types: EventTypeMeasurements | None
    parked: ParkedMeasurements | None
    sessions: int | None
    expired: int | None
    """Number of offsets that are below a floor and still hold events, of up to `MEASURED_MAX` partitions."""
    space: StoreSpace | None
    cold: ColdMeasurements | None
    erasing: int | None
    """Microseconds since the oldest erasure that is not finished was requested; 0: all are finished."""


class DatabaseMonitor:
    """Checks and measures the database of one hub. Safe to use from many threads.

    Each measurement asks the database for everything at once, so the caller decides how often that may happen. The
    number of groups and event types in it is limited; the worst are kept.

    Attributes:
        lag_history: the gap and lag of the measured groups, from all measurements.
    """

    def __init__(self, store: Store, clock: Clock, lag_interval: float = SAMPLE_INTERVAL) -> None:
        """Monitor the database of *store*; *lag_interval* is that of the `lag_history`, in seconds."""
        self._store = store
        self._clock = clock
        self.lag_history = LagHistory(clock(), lag_interval)

    @property
    def kind(self) -> str:
        """The scheme of the database's URL: `sqlite` or `postgresql`."""
        return self._store.url.partition(":")[0]

    def check(self) -> None:
        """Return if the database can be used and has the tables of this version.

        Raises:
            DatabaseUnsuitable: the tables are not those of this version.
            DatabaseUnavailable: the database cannot be asked.
        """
        self._store.check()

    @property
    def replicas(self) -> Replicas | None:
        """The replicas of the database; None: none were named."""
        return self._store.replicas

    def count_connections(self) -> ConnectionCounts:
        """Return how many connections the pool has, by state."""
        return self._store.count_connections()

    def count_outbox(self) -> OutboxCount:
        """Count the rows of the outbox's tables, up to `ROWS_COUNTED_MAX` and one.

        Raises:
            DatabaseUnavailable: the database cannot be asked.
        """
        with self._store.read() as tx:
            return tx.outbox.count(ROWS_COUNTED_MAX + 1)

    def list_waiting(self) -> Sequence[str]:
        """Return the event types of which rows wait in the outbox, sorted.

        Raises:
            DatabaseUnavailable: the database cannot be asked.
        """
        with self._store.read() as tx:
            return sorted(tx.outbox.find_waiting(None))

    def measure_event_types(self, limit: int, timeout: float) -> Sequence[EventTypeMeasurement]:
        """Measure up to *limit* event types, those with the most events; the database ends that after *timeout*.

        Raises:
            Unavailable: it took longer.
            DatabaseUnavailable: the database cannot be asked.
        """
        with self._store.read(timeout=timeout) as tx:
            return tx.registry.measure(limit).event_types

    def record_lag(self) -> None:
        """Measure for the `lag_history`, unless there is no consumer group.

        Raises:
            Unavailable: it took too long to look for a group.
            DatabaseUnavailable: the database cannot be asked.
        """
        at = self._clock()
        with self._store.read(timeout=MEASURE_TIMEOUT) as tx:
            has_groups = bool(tx.groups.list(GroupFilter(), 1))
        if has_groups:
            self.measure()
        else:
            self.lag_history.add(at, ())

    def measure(self) -> Measurement:
        """Measure what the database holds.

        Raises:
            DatabaseUnavailable: the database cannot be asked.
        """
        began, at = time.monotonic(), self._clock()

        def ask(part: Callable[[float], Part]) -> Part | None:
            try:
                return part(max(0.001, began + MEASURE_TIMEOUT - time.monotonic()))
            except DatabaseUnavailable:
                raise
            except Unavailable:  # The statement took too long.
                return None

        def read(part: Callable[[Tx], Part]) -> Part | None:
            def run(timeout: float) -> Part:
                with self._store.read(timeout=timeout) as tx:
                    return part(tx)

            return ask(run)

        groups = read(lambda tx: tx.groups.measure(MEASURED_MAX))
        if groups is not None:
            self.lag_history.add(at, groups.groups)
        event_types = read(lambda tx: tx.registry.measure(MEASURED_MAX))
        parked = read(lambda tx: tx.groups.measure_parked(MEASURED_MAX))
        sessions = read(lambda tx: tx.subscriptions.count_sessions(LEASE_US))
        expired = read(lambda tx: sum(stop - start for _, start, stop in tx.removal.list_unswept(MEASURED_MAX)))
        cold = read(lambda tx: tx.cold.measure(MEASURED_MAX))
        erasing = read(
            lambda tx: max((at - each.requested_at for each in tx.erasures.list(unfinished=True)), default=0)
        )
        space = ask(lambda timeout: self._store.measure_space(timeout=timeout))
        return Measurement(
            at, time.monotonic() - began, groups, event_types, parked, sessions, expired, space, cold, erasing
        )
