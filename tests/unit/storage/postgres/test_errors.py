import psycopg
import pytest

from penstock.errors import DatabaseUnavailable, DatabaseUnsuitable, DiskFull, PenstockError
from penstock.storage.postgres.errors import translate_errors

errors = psycopg.errors


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (errors.DiskFull("could not extend file: No space left on device"), DiskFull),
        (errors.UndefinedTable('relation "penstock_event" does not exist'), DatabaseUnsuitable),
        (errors.AdminShutdown("terminating connection due to administrator command"), DatabaseUnavailable),
        (errors.CannotConnectNow("the database system is starting up"), DatabaseUnavailable),
        (errors.DeadlockDetected("deadlock detected"), DatabaseUnavailable),
        (errors.LockNotAvailable("canceling statement due to lock timeout"), DatabaseUnavailable),
        (errors.TooManyConnections("sorry, too many clients already"), DatabaseUnavailable),
        (errors.ReadOnlySqlTransaction("cannot execute COPY FROM in a read-only transaction"), DatabaseUnavailable),
        (errors.IdleInTransactionSessionTimeout("terminating connection"), DatabaseUnavailable),
        (psycopg.OperationalError("server closed the connection unexpectedly"), DatabaseUnavailable),
        (psycopg.InterfaceError("the connection is closed"), DatabaseUnavailable),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_transient_and_permanent_errors_are_distinguished(error: psycopg.Error, meaning: type[PenstockError]) -> None:
    with pytest.raises(meaning) as told, translate_errors():
        raise error

    assert type(told.value) is meaning
    assert told.value.__cause__ is error
    assert told.value.retryable == (meaning is not DatabaseUnsuitable)


@pytest.mark.parametrize(
    "error",
    [
        errors.UndefinedTable('relation "orders" does not exist'),
        errors.UniqueViolation('duplicate key value violates unique constraint "penstock_event_pkey"'),
        errors.RaiseException("penstock: events are never changed"),
        errors.SyntaxError("syntax error"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_programming_error_is_passed_on_unchanged(error: psycopg.Error) -> None:
    with pytest.raises(type(error)) as told, translate_errors():
        raise error

    assert told.value is error


def test_reason_of_an_error_is_one_line() -> None:
    with pytest.raises(DatabaseUnavailable) as told, translate_errors():
        raise psycopg.OperationalError("connection failed:\n\tIs the server running?\n")

    assert told.value.reason == "connection failed: Is the server running?"
