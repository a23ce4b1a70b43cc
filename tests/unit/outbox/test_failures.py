"""Errors of a database are explained through their wrappers."""

import sqlite3

import pytest

from penstock.errors import DatabaseUnsuitable, SnapshotOutdated
from penstock.outbox.failures import explain
from tests.failing import has_code


class DriverError(Exception):
    """An error as drivers raise it, with the server's state or SQLite's name."""

    def __init__(self, text: str, *, sqlstate: str | None = None, name: str | None = None) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate
        self.sqlite_errorname = name


class Wrapped(Exception):
    """An error as SQLAlchemy raises it."""

    def __init__(self, orig: Exception) -> None:
        super().__init__("wrapped")
        self.orig = orig


UNDEFINED = DriverError('relation "penstock_outbox" does not exist', sqlstate="42P01")
BUSY = DriverError("database is locked", name="SQLITE_BUSY_SNAPSHOT")


def raise_it(error: Exception, cause: Exception | None = None) -> None:
    try:
        raise error from cause
    except Exception as raised:
        explain(raised)
        raise


def test_error_is_recognized_through_its_wrappers() -> None:
    for error, cause in ((BUSY, None), (Wrapped(BUSY), None), (ValueError("wrapped"), BUSY)):
        with pytest.raises(SnapshotOutdated) as caught:
            raise_it(error, cause)
        assert caught.value.__cause__ is error


def test_missing_table_of_penstock_is_named() -> None:
    with pytest.raises(DatabaseUnsuitable, check=has_code("schema-missing"), match="penstock_outbox"):
        raise_it(UNDEFINED)
    with pytest.raises(DatabaseUnsuitable, check=has_code("schema-missing"), match="penstock_event_type"):
        raise_it(sqlite3.OperationalError("no such table: penstock_event_type"))
    for older in (
        DriverError('column "fingerprint" does not exist', sqlstate="42703"),
        sqlite3.OperationalError("no such column: fingerprint"),
    ):
        with pytest.raises(
            DatabaseUnsuitable, check=has_code("schema-missing"), match=r"an older Penstock.*penstock migrate"
        ):
            raise_it(older)


def test_other_errors_are_passed_on_unchanged() -> None:
    for error in (
        DriverError('relation "orders" does not exist', sqlstate="42P01"),
        sqlite3.OperationalError("no such table: orders"),
        DriverError("penstock_outbox is on fire", sqlstate="XX000"),
        ValueError("penstock_outbox"),
    ):
        with pytest.raises(type(error)) as caught:
            raise_it(error)
        assert caught.value is error
        assert not hasattr(error, "__notes__")


def test_advice_is_noted_on_errors_of_the_driver() -> None:
    for error, advice in (
        (DriverError("database is locked", name="SQLITE_BUSY"), "BEGIN IMMEDIATE"),
        (DriverError("permission denied", sqlstate="42501"), "GRANT INSERT"),
    ):
        with pytest.raises(DriverError) as caught:
            raise_it(error)
        assert advice in caught.value.__notes__[0]
