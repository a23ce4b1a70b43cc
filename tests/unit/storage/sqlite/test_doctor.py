import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import DatabaseUnavailable
from penstock.storage.sqlite import SQLITE
from penstock.storage.sqlite.doctor import diagnose, read_schema_version
from penstock.storage.sqlite.store import SqliteStore

WANTED = SQLITE.version


def wrong(store: SqliteStore, wanted: int = WANTED, retry_timeout: float = 0.05) -> dict[str, str]:
    """Return what is wrong, by name."""
    return {found.name: found.says for found in diagnose(store.path, wanted, retry_timeout) if not found.ok}


def run(store: SqliteStore, sql: str) -> None:
    with closing(sqlite3.connect(store.path)) as service:
        service.execute(sql)
        service.commit()


def test_new_database_has_nothing_wrong(store: SqliteStore) -> None:
    assert wrong(store) == {}


def test_missing_file_is_unavailable_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable):
        diagnose(tmp_path / "hub.db", WANTED, 0.05)

    assert list(tmp_path.iterdir()) == []


def test_file_without_tables_is_at_version_0(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as service:
        service.execute("CREATE TABLE orders (id INTEGER)")
        assert read_schema_version(service) == 0

    found = {each.name: each for each in diagnose(path, WANTED, 0.05)}
    assert not found["schema"].ok and found["schema"].says.startswith("version 0,")
    assert found.keys() == {"database", "schema", "long transactions"}  # What a hub would make or set is not judged.


def test_tables_of_another_version_are_wrong(store: SqliteStore) -> None:
    assert wrong(store, wanted=WANTED + 1) == {"schema": f"version {WANTED}, this Penstock needs {WANTED + 1}"}


def test_transaction_that_locks_the_file_is_found(store: SqliteStore) -> None:
    with closing(sqlite3.connect(store.path, isolation_level=None)) as service:
        service.execute("BEGIN IMMEDIATE")
        assert "no other connection can write" in wrong(store)["long transactions"]
        service.execute("ROLLBACK")

    assert wrong(store) == {}


def test_outbox_is_wrong_from_10000_waiting_rows_and_from_one_rejected_row(store: SqliteStore) -> None:
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) SELECT i FROM n"
    run(store, f"INSERT INTO penstock_outbox (event_type, data) SELECT 'a', '{{}}' FROM ({numbers})")
    assert wrong(store) == {}

    run(store, "INSERT INTO penstock_outbox (event_type, data) VALUES ('a', '{}')")
    columns = "event_type, data, created_at, rejected_at, reason"
    run(store, f"INSERT INTO penstock_rejected ({columns}) VALUES ('a', '{{', '', '', 'not JSON')")

    found = wrong(store)
    assert found["outbox"] == "10000 rows wait to be moved"
    assert found["rejected"].startswith("1 ")
