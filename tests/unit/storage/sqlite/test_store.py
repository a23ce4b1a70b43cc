from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import DatabaseUnavailable
from penstock.storage.sqlite.store import SqliteStore
from tests.store_contract.database import created


@pytest.fixture
def other(store: SqliteStore) -> Iterator[SqliteStore]:
    """The same file, as another process has it."""
    other = SqliteStore(store.path)
    yield other
    other.close()


def test_watcher_reports_changes_of_any_connection_once(store: SqliteStore, other: SqliteStore) -> None:
    watcher = store.watch()

    assert [watcher.has_changed() for _ in range(3)] == [True, False, False]
    created(other, "a")
    assert [watcher.has_changed() for _ in range(2)] == [True, False]
    created(store, "b")  # This process' own commits are others' to a watcher, which has its own connection.
    assert [watcher.has_changed() for _ in range(2)] == [True, False]
    with other.read() as tx:
        tx.registry.list()
    assert not watcher.has_changed()
    watcher.close()


def test_missing_directory_is_named_and_not_created(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "missing" / "hub.db")

    with pytest.raises(DatabaseUnavailable, match=r"there is no directory .*missing; create it"):
        store.migrate()

    assert not (tmp_path / "missing").exists()
