"""Fixtures of the client's tests against live servers."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub, live_hub
from tests.client.loopback import served
from tests.client.reference_server import ListReader, reference_app
from tests.client.splitting_server import SplittingFeed, splitting_app
from tests.unit.client.conftest import anyio_backend, kind

__all__ = ["anyio_backend", "kind"]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub for all tests of a file, on SQLite and on PostgreSQL in turn."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db"
    else:
        url = request.getfixturevalue("postgres_cluster").create_database()
    with live_hub(url) as running:
        yield running


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    """A client of the hub."""
    with Client(hub.url) as client:
        yield client


@dataclass
class Reference:
    """The reference implementation's server, and the reader that it serves."""

    url: str
    reader: ListReader


@dataclass
class Splitting:
    """The FeedAPI server, and the feed that it serves."""

    url: str
    feed: SplittingFeed


@pytest.fixture
def reference() -> Iterator[Reference]:
    """The reference ZeroEventHub server, with two partitions."""
    reader = ListReader(2)
    with served(reference_app(reader)) as url:
        yield Reference(f"{url}/feed", reader)


@pytest.fixture
def splitting() -> Iterator[Splitting]:
    """A FeedAPI server whose feed has one partition, 0, to begin with."""
    feed = SplittingFeed(0)
    with served(splitting_app(feed)) as url:
        yield Splitting(f"{url}/feed", feed)


@pytest.fixture
def waiting() -> Iterator[Splitting]:
    """A FeedAPI server that waits for events where there are none."""
    feed = SplittingFeed(0, waits=True)
    with served(splitting_app(feed)) as url:
        yield Splitting(f"{url}/feed", feed)
