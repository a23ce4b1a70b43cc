"""What the hub's unit tests share: a real store in a file of its own, and a clock that stands still."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.hub.hub import Hub
from penstock.storage import Store, open_store
from penstock.testing.clock import VirtualClock
from tests.unit.hub.committing import Log
from tests.unit.hub.forwarding import ForwardingStore


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with a hub's tables, which is copied sooner than another one is migrated."""
    file = tmp_path_factory.mktemp("migrated") / "hub.db"
    with closing(open_store(f"sqlite:///{file}")) as store:
        store.migrate()
    return file


@pytest.fixture
def store(tmp_path: Path, migrated_file: Path) -> Iterator[Store]:
    for file in migrated_file.parent.iterdir():
        shutil.copy(file, tmp_path)
    store = open_store(f"sqlite:///{tmp_path}/hub.db")
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
    store.migrate()
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
