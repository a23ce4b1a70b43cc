"""A database error is classified by its type and its SQLSTATE."""

import sqlite3
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from penstock.processing.outage import is_nobodys, is_overdue, is_passing


def name_of(given: object) -> str:
    return f"{given.__module__}.{given.__name__}" if isinstance(given, type) else str(given)


@pytest.mark.parametrize(
    "kind",
    [
        psycopg.OperationalError,
        psycopg.InterfaceError,
        errors.ConnectionFailure,
        errors.SerializationFailure,
        errors.DeadlockDetected,
        errors.TooManyConnections,
        errors.DiskFull,
        errors.LockNotAvailable,
        errors.QueryCanceled,
        errors.AdminShutdown,
        errors.CrashShutdown,
        errors.CannotConnectNow,
        errors.IdleInTransactionSessionTimeout,
        errors.TransactionTimeout,
        errors.ReadOnlySqlTransaction,
        errors.IoError,
        sqlite3.OperationalError,
        sqlite3.InterfaceError,
    ],
    ids=name_of,
)
def test_temporary_error_passes(kind: type[Exception]) -> None:
    assert is_passing(kind("now"))


@pytest.mark.parametrize(
    "kind",
    [
        errors.SyntaxError,
        errors.UndefinedTable,
        errors.UniqueViolation,
        errors.NumericValueOutOfRange,
        errors.ProgramLimitExceeded,
        errors.ObjectNotInPrerequisiteState,
        errors.InvalidPassword,
        psycopg.DataError,
        sqlite3.IntegrityError,
        sqlite3.ProgrammingError,
        ValueError,
    ],
    ids=name_of,
)
def test_permanent_error_does_not_pass(kind: type[Exception]) -> None:
    assert not is_passing(kind("ever"))
    assert not is_nobodys(kind("ever"))


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
    assert is_nobodys(refused.value)
    assert is_passing(refused.value)


@pytest.mark.parametrize(
    ("kind", "nobodys"),
    [
        (errors.AdminShutdown, True),
        (errors.CrashShutdown, True),
        (errors.CannotConnectNow, True),
        (errors.ConnectionFailure, True),
        (errors.SerializationFailure, True),
        (errors.DeadlockDetected, True),
        (errors.ReadOnlySqlTransaction, True),
        (errors.QueryCanceled, False),
        (errors.LockNotAvailable, False),
        (errors.IdleInTransactionSessionTimeout, False),
        (errors.DiskFull, False),
        (psycopg.OperationalError, False),
        (sqlite3.OperationalError, False),
    ],
    ids=name_of,
)
def test_server_error_is_blamed_on_no_transaction_and_a_time_out_is(kind: type[Exception], *, nobodys: bool) -> None:
    assert is_nobodys(kind("what")) == nobodys


def test_failed_connection_is_not_blamed_on_the_caller() -> None:
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect("postgresql://127.0.0.1:1/none")
    assert is_nobodys(refused.value)


def test_transaction_ended_for_its_length_is_told_from_others() -> None:
    assert is_overdue(errors.IdleInTransactionSessionTimeout("late"))
    assert not is_overdue(errors.AdminShutdown("gone"))
