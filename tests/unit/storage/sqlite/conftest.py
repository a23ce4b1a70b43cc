"""Fixtures of the unit tests of the store in SQLite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.storage.sqlite.store import SqliteStore


@pytest.fixture
def store(migrated_sqlite_url: str) -> Iterator[SqliteStore]:
    """A store with its tables."""
    store = SqliteStore(Path(migrated_sqlite_url.removeprefix("sqlite:///")))
    yield store
    store.close()
