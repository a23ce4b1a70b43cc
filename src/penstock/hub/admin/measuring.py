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
STATEMENT_TIMEOUT: Final = 5.0
"""The database ends a statement that takes longer; its part of the measurement is missing then."""
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
    groups = _read(store, lambda tx: tx.groups.measure(MEASURED_MAX))
    event_types = _read(store, lambda tx: tx.registry.measure(MEASURED_MAX))
    parked = _read(store, lambda tx: tx.subscriptions.measure_parked(MEASURED_MAX))
    sessions = _read(store, lambda tx: tx.subscriptions.count_sessions(LEASE_US))
    space = _ask(lambda: store.measure_space(timeout=STATEMENT_TIMEOUT))
    return Measurement(at, time.monotonic() - began, groups, event_types, parked, sessions, space)


def _read(store: Store, ask: Callable[[Tx], Part]) -> Part | None:
    def read() -> Part:
        with store.read(timeout=STATEMENT_TIMEOUT) as tx:
            return ask(tx)

    return _ask(read)


def _ask(ask: Callable[[], Part]) -> Part | None:
    try:
        return ask()
    except DatabaseUnavailable:
        raise
    except Unavailable:  # The statement took too long.
        return None
