"""What the hub's unit tests share: a real store in a file of its own, and a clock that stands still."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.storage import Store, open_store
from penstock.testing.clock import VirtualClock
from tests.unit.hub.forwarding import ForwardingStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with its tables."""
    store = open_store(f"sqlite:///{tmp_path}/hub.db")
    store.migrate()
    yield store
    store.close()


@pytest.fixture
def forwarding(store: Store) -> ForwardingStore:
    """The same store, counted."""
    return ForwardingStore(store)


@pytest.fixture
def clock() -> VirtualClock:
    """The time, which passes when the test says so."""
    return VirtualClock()


@pytest.fixture
def either_store(migrated_url: str) -> Iterator[Store]:
    """A store with its tables, in SQLite and in PostgreSQL in turn."""
    store = open_store(migrated_url)
    store.migrate()
    yield store
    store.close()
