"""SQLite aggregates rows as its scan gives them: the statements that rely on it must scan by the primary key."""

import re
import sqlite3
from pathlib import Path

import pytest

from penstock.storage import open_store
from penstock.storage.sqlite import SQLITE


@pytest.mark.parametrize("name", ["lines", "columns", "columns_keys", "columns_sparse"])
def test_range_is_read_by_one_scan_of_the_primary_key(name: str, tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    store = open_store(f"sqlite:///{path}")
    store.migrate()
    store.close()
    sql = SQLITE.statements[name]
    given = dict.fromkeys(re.findall(r":(\w+)", re.sub(r"--.*", "", sql)), 1)

    connection = sqlite3.connect(path)
    plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", given)]
    connection.close()

    assert plan == ["SEARCH penstock_event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]
