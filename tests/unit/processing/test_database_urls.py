"""Databases that cannot be opened are told with the reason, and what to do."""

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from penstock.errors import BadParameter, DatabaseUnavailable, RequirementMissing
from penstock.processing import DatabaseCheckpoints, Projection, Transactional
from penstock.processing.checkpoints import Advance, DatabaseLeases, PositionMove
from penstock.processing.database import connector, may_be_one, run_in_transaction, transaction
from penstock.processing.sources import MemorySource


@dataclass
class Count:
    """Of events."""

    n: int = 0


def counted(state: Count, _: object) -> Count:
    return Count(state.n + 1)


def test_file_in_a_missing_directory_is_refused_with_that_directory(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/missing/x.db"
    told = rf"missing/x\.db cannot be opened: there is no directory {tmp_path}/missing; create it, or correct the name"

    with pytest.raises(DatabaseUnavailable, match=told):
        DatabaseCheckpoints(url, "mailer").positions()
    with pytest.raises(DatabaseUnavailable, match=told):
        Projection("counts", Count, counted).inline(MemorySource(), url)
    (tmp_path / "missing").mkdir()
    assert DatabaseCheckpoints(url, "mailer").positions() == {}


def test_url_is_taken_without_line_break_and_driver(tmp_path: Path) -> None:
    with transaction(connector(f"sqlite+aiosqlite:///{tmp_path}/shop.db\n")) as connection:
        connection.execute("CREATE TABLE t (n integer)")

    assert [path.name for path in tmp_path.iterdir()] == ["shop.db"]


def test_directory_is_told_from_a_file(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="it is a directory; name a file in it"):
        connector(f"sqlite:///{tmp_path}")()


def test_file_that_is_no_database_is_refused_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no database at all\n" * 100)
    told = rf"{file} is not a SQLite database; name another file"

    for database in (f"sqlite:///{file}", lambda: sqlite3.connect(file)):
        with pytest.raises(DatabaseUnavailable, match=told):
            DatabaseCheckpoints(database, "mailer").positions()
        with pytest.raises(DatabaseUnavailable, match=told):
            DatabaseLeases(database, "mailer").renew(["a"])
        with pytest.raises(DatabaseUnavailable, match=told):
            Projection("counts", Count, counted).inline(MemorySource(), database)
        with pytest.raises(DatabaseUnavailable, match=told):
            Projection("counts", Count, counted).switch(database)
    assert file.read_text().startswith("no database"), "it is left as it is"


def test_no_other_connection_writes_to_a_file_during_a_transaction(
    tmp_path: Path,
) -> None:
    def begun() -> sqlite3.Connection:  # As it is with `autocommit=False`, from Python 3.12 on.
        connection = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        connection.execute("BEGIN")
        return connection

    with transaction(begun) as connection, closing(sqlite3.connect(tmp_path / "a.db", timeout=0)) as other:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("CREATE TABLE theirs (n int)")
        connection.execute("CREATE TABLE ours (n int)")
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("ours",)]


def test_transaction_begun_by_opening_a_connection_is_committed_before(postgres_url: str) -> None:
    def begun() -> "psycopg.Connection":
        connection = psycopg.connect(postgres_url)
        connection.execute("SET search_path TO public")
        assert connection.info.transaction_status is TransactionStatus.INTRANS
        return connection

    DatabaseCheckpoints(begun, "mailer").commit(Advance({"0": PositionMove(None, 7)}))
    assert DatabaseCheckpoints(postgres_url, "mailer").positions() == {"0": 7}


@pytest.mark.parametrize("database", ["sqlite:///:memory:", ":memory:"])
def test_database_in_memory_is_refused_at_once(database: str) -> None:
    given: list[Callable[[], object]] = [
        lambda: DatabaseCheckpoints(database, "mailer"),
        lambda: DatabaseLeases(database, "mailer"),
        lambda: Transactional(database, lambda _, __: None, DatabaseCheckpoints("sqlite:///a.db", "mailer")),
        lambda: Projection("counts", Count, counted).local(MemorySource(), database),
        lambda: Projection("counts", Count, counted).switch(database),
    ]
    for give in given:
        with pytest.raises(BadParameter, match=r":memory:'; allowed: sqlite:///FILE: .* a database of its own"):
            give()


def test_wrong_statement_is_not_taken_for_an_outage(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such column: missing"):
        run_in_transaction(connector(f"sqlite:///{tmp_path}/a.db"), lambda each: each.execute("SELECT missing"), "own")


def test_unreachable_server_is_reported_in_one_line() -> None:
    with (
        pytest.raises(DatabaseUnavailable, match=r"the database cannot be used now: .*refused") as told,
        transaction(connector("postgresql://me:secret@127.0.0.1:1/none")),
    ):
        pass
    assert "\n" not in str(told.value)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("first", "second", "may_be"),
    [
        ("postgresql://me@host/", "postgresql://me@host/me", True),
        ("postgresql://host", "postgresql://host", True),
        ("postgresql://host/shop", "postgresql://localhost:6432/shop", True),
        ("postgresql://host/shop", "postgresql://host/read", False),
        ("postgresql://host", "sqlite:///host", False),
        ("postgresql+psycopg://host/shop", "postgresql://host/shop\n", True),
    ],
)
def test_unnamed_database_may_be_the_named_one(*, first: str, second: str, may_be: bool) -> None:
    assert (may_be_one(first, second), may_be_one(second, first)) == (may_be, may_be)


def test_malformed_url_is_refused_without_quoting_it() -> None:
    with pytest.raises(BadParameter, match=r"database is 'postgresql://…'; allowed: postgresql://USER") as told:
        may_be_one("postgresql://me:my secret@host/shop", "postgresql://host/shop")
    assert "my secret" not in f"{told.value}{told.value.__cause__}"


def test_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with (
        pytest.raises(
            RequirementMissing, match=r"psycopg is needed, none found; install it: pip install 'penstock-hub\["
        ),
        transaction(connector("postgresql://me@127.0.0.1:1/none")),
    ):
        pass
