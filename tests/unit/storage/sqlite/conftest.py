"""Fixtures of the unit tests of the store in SQLite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.storage.sqlite.store import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store with its tables."""
    store = SqliteStore(tmp_path / "hub.db")
    store.migrate()
    yield store
    store.close()
