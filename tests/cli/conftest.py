"""The command, a hub for it to talk to, and event types to talk about."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from penstock.client import Client
from penstock.errors import EventTypeNotFound
from penstock.testing.live_hub import LiveHub, live_hub
from tests.cli.command import Command, clean_environment


@pytest.fixture(scope="package")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub on SQLite that all these tests share; each makes event types of its own."""
    directory = tmp_path_factory.mktemp("hub")
    with live_hub(f"sqlite:///{directory}/penstock.db") as running:
        yield running


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    """A client of that hub."""
    with Client(hub.url) as client:
        yield client


@pytest.fixture
def penstock(tmp_path: Path) -> Command:
    """The command, for no hub yet."""
    return Command(tmp_path, clean_environment())


@pytest.fixture
def at_hub(penstock: Command, hub: LiveHub) -> Command:
    """The command, for that hub."""
    return penstock.at(hub.url)


@pytest.fixture
def orders(client: Client) -> Iterator[str]:
    """An event type with four partitions, hashed by order_id."""
    name = f"orders-{uuid4().hex}"
    client.create_event_type(name, partition_count=4, partition_strategy="hash", partition_key_fields=["order_id"])
    yield name
    with suppress(EventTypeNotFound):  # The test has deleted it.
        client.delete_event_type(name)
