"""SQLite aggregates rows as its scan gives them: the statements that rely on it must scan by the primary key."""

import re
import sqlite3
from pathlib import Path

import pytest

from penstock.storage import open_store
from penstock.storage.sqlite import SQLITE


@pytest.mark.parametrize("name", ["lines", "columns", "columns_sparse"])
def test_range_is_read_by_one_scan_of_the_primary_key(name: str, tmp_path: Path) -> None:
    assert explain(name, tmp_path) == ["SEARCH penstock_event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]


@pytest.mark.parametrize("name", ["cold_find", "cold_files"])
def test_files_of_partitions_are_found_by_their_index(name: str, tmp_path: Path) -> None:
    index = "SEARCH penstock_cold_file USING INDEX penstock_cold_file_range (partition_id=? AND stop>?)"
    assert explain(name, tmp_path)[0] == index


def explain(name: str, tmp_path: Path) -> list[str]:
    """Return the steps by which SQLite runs a statement."""
    path = tmp_path / "hub.db"
    store = open_store(f"sqlite:///{path}")
    store.migrate()
    store.close()
    sql = SQLITE.statements[name]
    given = dict.fromkeys(re.findall(r":(\w+)", re.sub(r"--.*", "", sql)), 1)

    connection = sqlite3.connect(path)
    plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", given)]
    connection.close()
    return plan
