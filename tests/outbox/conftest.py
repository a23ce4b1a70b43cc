"""Databases as a hub has left them, and every kind of connection to them."""

from contextlib import closing

import pytest

from penstock.core.registry.event_type import EventType
from penstock.storage import open_store
from penstock.testing.factories import an_event_type
from tests.exhaustive import exhaustive
from tests.outbox.kinds import POSTGRES_KINDS, SQLITE_KINDS, Kind, Service

KINDS = [("sqlite", kind) for kind in SQLITE_KINDS] + [("postgres", kind) for kind in POSTGRES_KINDS]

PLAIN = ("with_sqlite3", "with_psycopg", "with_asyncpg")
FEW_KINDS = [pair if pair[1].__name__ in PLAIN else exhaustive(pair) for pair in KINDS]


def add_event_types(url: str) -> str:
    """Add an event type of each category, named after it."""
    with closing(open_store(url)) as store, store.write() as tx:
        for category in ("undefined", "business", "data"):
            tx.registry.insert(EventType.parse(an_event_type(category, category=category)), at=1)
    return url


def name_of(pair: tuple[str, Kind]) -> str:
    return f"{pair[1].__name__}_on_{pair[0]}"


@pytest.fixture(params=KINDS, ids=name_of)
def bare_service(request: pytest.FixtureRequest) -> Service:
    """A service with a database that no hub has been at, for each kind of connection in turn."""
    database, kind = request.param
    return Service(request.getfixturevalue(f"{database}_url"), kind)


@pytest.fixture(params=KINDS, ids=name_of)
def service(request: pytest.FixtureRequest) -> Service:
    """A service with a database that a hub has migrated, for each kind of connection in turn."""
    database, kind = request.param
    return Service(request.getfixturevalue(f"{database}_hub"), kind)


@pytest.fixture(params=FEW_KINDS, ids=name_of)
def plain_service(request: pytest.FixtureRequest) -> Service:
    """The same, with few kinds of connection in `make test`: for rules that do not depend on the kind."""
    database, kind = request.param
    return Service(request.getfixturevalue(f"{database}_hub"), kind)


@pytest.fixture
def sqlite_hub(migrated_sqlite_url: str) -> str:
    """An SQLite database that a hub has migrated."""
    return add_event_types(migrated_sqlite_url)


@pytest.fixture
def postgres_hub(migrated_postgres_url: str) -> str:
    """A PostgreSQL database that a hub has migrated."""
    return add_event_types(migrated_postgres_url)


@pytest.fixture(params=["sqlite", "postgres"])
def hub_url(request: pytest.FixtureRequest) -> str:
    """A database that a hub has migrated, on SQLite and on PostgreSQL in turn."""
    url: str = request.getfixturevalue(f"{request.param}_hub")
    return url
