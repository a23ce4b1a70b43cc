"""Measures what the database holds, for metrics: how far consumer groups are behind, and what else piles up.

Each measurement asks the database for everything at once, so the caller decides how often that may happen. The number
of groups, event types and subscriptions in it is limited; the worst are kept.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from penstock.errors import DatabaseUnavailable, Unavailable
from penstock.hub.background import Clock
from penstock.hub.subscriptions.sessions import LEASE_US
from penstock.storage.groups import GroupMeasurements
from penstock.storage.registry import EventTypeMeasurements
from penstock.storage.store import Store, StoreSpace, Tx
from penstock.storage.subscriptions import ParkedMeasurements

MEASURED_MAX: Final = 100
"""A measurement has at most so many groups, event types and subscriptions: metrics have a time series for each."""
MEASURE_TIMEOUT: Final = 5.0
"""The database ends the statements of a measurement after so long; what they would have told is missing then."""
Part = TypeVar("Part")


class Measurement(NamedTuple):
    """What the database held at one time. A part is None if it took the database too long."""

    at: int
    """The time, in microseconds since 1970, UTC."""
    seconds: float
    """How long it took to measure."""
    groups: GroupMeasurements | None
    event_types: EventTypeMeasurements | None
    parked: ParkedMeasurements | None
    sessions: int | None
    space: StoreSpace | None


def measure(store: Store, clock: Clock) -> Measurement:
    """Measure what *store* holds.

    Raises:
        DatabaseUnavailable: the database cannot be asked.
    """
    began, at = time.monotonic(), clock()

    def ask(part: Callable[[float], Part]) -> Part | None:
        try:
            return part(max(0.001, began + MEASURE_TIMEOUT - time.monotonic()))
        except DatabaseUnavailable:
            raise
        except Unavailable:  # The statement took too long.
            return None

    def read(part: Callable[[Tx], Part]) -> Part | None:
        def run(timeout: float) -> Part:
            with store.read(timeout=timeout) as tx:
                return part(tx)

        return ask(run)

    groups = read(lambda tx: tx.groups.measure(MEASURED_MAX))
    event_types = read(lambda tx: tx.registry.measure(MEASURED_MAX))
    parked = read(lambda tx: tx.subscriptions.measure_parked(MEASURED_MAX))
    sessions = read(lambda tx: tx.subscriptions.count_sessions(LEASE_US))
    space = ask(lambda timeout: store.measure_space(timeout=timeout))
    return Measurement(at, time.monotonic() - began, groups, event_types, parked, sessions, space)
