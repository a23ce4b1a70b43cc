"""What the hub's unit tests share: a real store in a file of its own, and a clock that stands still."""

from collections.abc import Iterator

import pytest

from penstock.hub.hub import Hub
from penstock.storage import Store, open_store
from penstock.testing.clock import VirtualClock
from tests.unit.hub.committing import Log
from tests.unit.hub.forwarding import ForwardingStore


@pytest.fixture
def store(migrated_sqlite_url: str) -> Iterator[Store]:
    store = open_store(migrated_sqlite_url)
    yield store
    store.close()


@pytest.fixture
def forwarding(store: Store) -> ForwardingStore:
    return ForwardingStore(store)


@pytest.fixture
def clock() -> VirtualClock:
    """The time, which passes when the test says so."""
    return VirtualClock()


@pytest.fixture
def either_store(migrated_url: str) -> Iterator[Store]:
    """A store with its tables, in SQLite and in PostgreSQL in turn."""
    store = open_store(migrated_url)
    yield store
    store.close()


@pytest.fixture
def hub(either_store: Store, clock: VirtualClock) -> Iterator[Hub]:
    """A hub that was not started, on SQLite and on PostgreSQL in turn."""
    found = Hub(either_store, clock=clock)
    yield found
    found.stop()


@pytest.fixture
def log(store: Store) -> Iterator[Log]:
    """An event type, and a committer of its own."""
    log = Log(store)
    yield log
    log.committer.stop()
