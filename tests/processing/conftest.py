"""Fixtures of the tests of processing: a hub, and the consumer's own database on SQLite and PostgreSQL."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest

from penstock.client import Client
from penstock.processing.changes import Changes
from penstock.processing.duplicates import Duplicates
from penstock.processing.latest import Latest
from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import LiveHub, live_hub
from tests.kafka import broker, kafka

__all__ = ["broker", "kafka"]

PLACED = an_event_type("order.placed", category="business")
CHANGES = Changes("order.changed", entity=["data.order_id"], order_by=["data.version"])


class Connect(Protocol):
    """Opens a connection to the consumer's database."""

    def __call__(self) -> AbstractContextManager[Any]: ...


@pytest.fixture
def anyio_backend() -> str:
    """Which event loop async tests run on."""
    return "asyncio"


@pytest.fixture
def hub(own_hub: LiveHub) -> LiveHub:
    """A hub of its own for each test; files whose tests can share one say so."""
    return own_hub


@pytest.fixture
def own_hub(migrated_file: Path, tmp_path: Path) -> Iterator[LiveHub]:
    """A hub of its own for each test."""
    shutil.copy(migrated_file, tmp_path / "hub.db")
    with live_hub(f"sqlite:///{tmp_path}/hub.db", log=tmp_path / "hub.log") as hub:
        yield hub


@pytest.fixture(scope="module")
def hub_of_the_file(migrated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub for all tests of a file."""
    folder = tmp_path_factory.mktemp("hub")
    shutil.copy(migrated_file, folder / "hub.db")
    with live_hub(f"sqlite:///{folder}/hub.db", log=folder / "hub.log") as hub:
        yield hub


@pytest.fixture
def emptied_hub(hub_of_the_file: LiveHub) -> Iterator[LiveHub]:
    """That hub, without what the tests before have left."""
    yield hub_of_the_file
    with Client(hub_of_the_file.url) as client:
        for subscription in client.subscriptions():
            client.subscription(subscription.id).delete()
        for event_type in client.event_types():
            client.delete_event_type(event_type["name"])
        for group in client.consumer_groups():
            client.forget_group(group.name)


@pytest.fixture(params=["sqlite", "psycopg"], ids=["sqlite", "postgres"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Connect:
    """Opens connections to one database."""
    if request.param == "sqlite":
        return lambda: closing(sqlite3.connect(tmp_path / "consumer.db", timeout=300))
    url = request.getfixturevalue("postgres_url")
    return lambda: psycopg.connect(url)


@pytest.fixture
def connection(connect: Connect) -> Iterator[Any]:
    """A connection to a database that has the tables."""
    with connect() as connection:
        Duplicates(connection, PLACED, "billing").create()
        Latest(connection, CHANGES, "search").create()
        connection.commit()
        yield connection
