"""Fixtures of the promises: hubs in this process, on a database that they share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.hub.hub import Hub
from penstock.testing.clock import VirtualClock
from tests.promises.scene import hub_on


@pytest.fixture
def url(migrated_url: str) -> str:
    """The URL of a hub's database, on SQLite and on PostgreSQL in turn."""
    return migrated_url


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the cold tier of a hub may lie."""
    return tmp_path / "cold"


@pytest.fixture
def clock() -> VirtualClock:
    """A clock for hubs, which stands still."""
    return VirtualClock()


@pytest.fixture
def hub(url: str) -> Iterator[Hub]:
    """A hub with one event type, which has one partition."""
    with hub_on(url, partitions=1) as hub:
        yield hub


@pytest.fixture
def other(hub: Hub, url: str) -> Iterator[Hub]:
    """Another hub on the same database."""
    with hub_on(url) as other:
        yield other
