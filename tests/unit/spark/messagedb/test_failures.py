import psycopg
import pytest

from penstock.errors import BadParameter, DatabaseUnavailable
from penstock.spark.messagedb.failures import meaning


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("connection refused"),
        psycopg.errors.AdminShutdown("terminating connection"),
        psycopg.errors.CannotConnectNow("the database system is starting up"),
        psycopg.InterfaceError("the connection is closed"),
    ],
)
def test_unavailable_database_is_a_retryable_error(error: psycopg.Error) -> None:
    found = meaning(error, "message_store")

    assert isinstance(found, DatabaseUnavailable)
    assert found.retryable
    assert str(error) in str(found)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.UndefinedTable('relation "message_store.messages" does not exist\nLINE 3'),
        psycopg.errors.UndefinedFunction("function message_store.category(text) does not exist"),
        psycopg.errors.InvalidSchemaName('schema "message_store" does not exist'),
    ],
)
def test_database_without_messagedb_is_reported(error: psycopg.Error) -> None:
    found = meaning(error, "message_store")

    assert isinstance(found, BadParameter)
    assert "option schema is 'message_store'; allowed: one in which MessageDB is installed" in str(found)
    assert "does not exist" in str(found)


def test_other_database_error_is_passed_on() -> None:
    error = psycopg.errors.InsufficientPrivilege("permission denied for table messages")

    assert meaning(error, "message_store") is error
