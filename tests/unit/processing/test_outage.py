"""A database error is classified by its type and its SQLSTATE."""

import sqlite3
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from penstock.processing.database import is_blameless, is_overdue, is_passing

BLAMED = {False: "passes, blamed on its transaction", True: "passes, blamed on nobody", None: "does not pass"}
KINDS: dict[type[Exception], bool | None] = {
    psycopg.OperationalError: False,
    psycopg.InterfaceError: False,
    errors.TooManyConnections: False,
    errors.DiskFull: False,
    errors.LockNotAvailable: False,
    errors.QueryCanceled: False,
    errors.IdleInTransactionSessionTimeout: False,
    errors.TransactionTimeout: False,
    errors.IoError: False,
    sqlite3.OperationalError: False,
    sqlite3.InterfaceError: False,
    errors.ConnectionFailure: True,
    errors.SerializationFailure: True,
    errors.DeadlockDetected: True,
    errors.AdminShutdown: True,
    errors.CrashShutdown: True,
    errors.CannotConnectNow: True,
    errors.ReadOnlySqlTransaction: True,
    errors.SyntaxError: None,
    errors.UndefinedTable: None,
    errors.UniqueViolation: None,
    errors.NumericValueOutOfRange: None,
    errors.ProgramLimitExceeded: None,
    errors.ObjectNotInPrerequisiteState: None,
    errors.InvalidPassword: None,
    psycopg.DataError: None,
    sqlite3.IntegrityError: None,
    sqlite3.ProgrammingError: None,
    ValueError: None,
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__} {BLAMED[KINDS[kind]]}")
def test_error_is_classified_by_its_kind(kind: type[Exception]) -> None:
    assert is_passing(kind("now")) == (KINDS[kind] is not None)
    assert is_blameless(kind("now")) == (KINDS[kind] is True)
    assert is_overdue(kind("now")) == (kind in (errors.IdleInTransactionSessionTimeout, errors.TransactionTimeout))


def test_wrong_statement_to_a_file_does_not_pass(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db")
    with pytest.raises(sqlite3.OperationalError) as wrong:
        connection.execute("SELECT missing")
    assert not is_passing(wrong.value)
    with pytest.raises(sqlite3.OperationalError) as away:
        sqlite3.connect(tmp_path / "missing" / "a.db")
    assert is_passing(away.value)


def test_read_only_file_is_not_blamed_on_the_statement(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "a.db").execute("CREATE TABLE t (n)")
    connection = sqlite3.connect(f"file:{tmp_path}/a.db?mode=ro", uri=True)
    with pytest.raises(sqlite3.OperationalError) as refused:
        connection.execute("INSERT INTO t VALUES (1)")
    assert is_blameless(refused.value)
    assert is_passing(refused.value)


def test_failed_connection_is_not_blamed_on_the_caller() -> None:
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect("postgresql://127.0.0.1:1/none")
    assert is_blameless(refused.value)
