"""What the client's tests against live servers share."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.client.loopback import served
from tests.client.reference_server import ListReader, reference_app
from tests.client.splitting_server import SplittingFeed, splitting_app


@pytest.fixture
def anyio_backend() -> str:
    """Which event loop async tests run on."""
    return "asyncio"


@dataclass
class Reference:
    """The reference implementation's server, with what it serves."""

    url: str
    reader: ListReader


@dataclass
class Splitting:
    """The FeedAPI server, with what it serves."""

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
