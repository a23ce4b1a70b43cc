"""The command, a hub for it to talk to, and event types to talk about."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing.live_hub import LiveHub, live_hub
from tests.cli.command import Command, clean_environment


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub on SQLite that all these tests share; each makes event types of its own."""
    directory = tmp_path_factory.mktemp("hub")
    with live_hub(f"sqlite:///{directory}/penstock.db") as running:
        yield running


@pytest.fixture
def penstock(tmp_path: Path) -> Command:
    """The command, which talks to no hub yet."""
    return Command(tmp_path, clean_environment())


@pytest.fixture
def at_hub(tmp_path: Path, hub: LiveHub) -> Command:
    """The command, which talks to the hub."""
    return Command(tmp_path, clean_environment() | {"PENSTOCK_URL": hub.url})


@pytest.fixture
def orders(at_hub: Command, request: pytest.FixtureRequest) -> Iterator[str]:
    """An event type with four partitions, hashed by order_id."""
    name = f"orders-{abs(hash(request.node.nodeid)):x}"
    options = ("--partitions", 4, "--partition-key-field", "order_id")
    assert at_hub("event-type", "create", name, *options).status == 0
    yield name
    at_hub("event-type", "delete", name, "--yes")
