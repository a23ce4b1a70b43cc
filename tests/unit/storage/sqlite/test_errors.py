import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import DatabaseUnavailable, DatabaseUnsuitable, DiskFull
from penstock.storage.sqlite.connection import translate_errors
from tests.failing import has_code


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hub.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        yield connection


def test_locked_file_is_unavailable(connection: sqlite3.Connection, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(DatabaseUnavailable, match="SQLITE_BUSY") as told, translate_errors():
            connection.execute("BEGIN IMMEDIATE")

    assert told.value.retry_after == 1
    assert isinstance(told.value.__cause__, sqlite3.OperationalError)


def test_damaged_file_is_reported_as_damaged(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("CREATE TABLE much (data BLOB)")
    connection.execute("INSERT INTO much VALUES (zeroblob(100000))")
    damaged = bytearray(path.read_bytes())
    damaged[4096:] = b"\xff" * (len(damaged) - 4096)
    path.write_bytes(damaged)

    with (
        closing(sqlite3.connect(path)) as other,
        pytest.raises(DatabaseUnavailable, match=r"put a backup back.*SQLITE_CORRUPT"),
        translate_errors(),
    ):
        other.execute("SELECT data FROM much").fetchall()

    path.write_bytes(b"x" * 8192)
    with (
        closing(sqlite3.connect(path)) as other,
        pytest.raises(DatabaseUnavailable, match=r"not a SQLite database.*SQLITE_NOTADB"),
        translate_errors(),
    ):
        other.execute("SELECT 1 FROM sqlite_master")


def test_full_file_is_reported_as_full(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE much (data BLOB)")
    connection.execute("PRAGMA max_page_count = 3")

    with pytest.raises(DiskFull), translate_errors():
        connection.execute("INSERT INTO much VALUES (zeroblob(1000000))")


def test_file_that_cannot_be_written_or_opened_is_unavailable(path: Path) -> None:
    path.touch()
    with (
        closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection,
        pytest.raises(DatabaseUnavailable, match="SQLITE_READONLY"),
        translate_errors(),
    ):
        connection.execute("CREATE TABLE anything (n INTEGER)")
    with pytest.raises(DatabaseUnavailable, match="SQLITE_CANTOPEN"), translate_errors():
        sqlite3.connect(path.parent / "nowhere" / "hub.db")


def test_missing_table_of_penstock_is_reported_and_another_is_not(connection: sqlite3.Connection) -> None:
    with pytest.raises(DatabaseUnsuitable, check=has_code("schema-missing")), translate_errors():
        connection.execute("SELECT * FROM penstock_event")
    with pytest.raises(sqlite3.OperationalError, match="no such table: orders"), translate_errors():
        connection.execute("SELECT * FROM orders")


def test_programming_error_is_passed_on_unchanged(connection: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError, match="syntax error"), translate_errors():
        connection.execute("SELEKT 1")
    with pytest.raises(ZeroDivisionError), translate_errors():
        raise ZeroDivisionError
