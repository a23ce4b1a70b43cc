"""On SQLite a publisher waits for the lock, or gets an error that says how to get it."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing

import django.db
import django.db.transaction
import pytest

from penstock.errors import EventTypeNotFound, SnapshotOutdated
from penstock.outbox import publish
from tests.outbox.kinds import django_on, engine, fetch, path_of


@pytest.fixture
def other(sqlite_hub: str) -> Iterator[sqlite3.Connection]:
    """Somebody else who writes to the same database; used by other threads too."""
    with closing(connect(sqlite_hub)) as connection:
        yield connection


def connect(url: str, timeout: float = 60) -> sqlite3.Connection:
    return sqlite3.connect(path_of(url), timeout, isolation_level=None, check_same_thread=False)


def write(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO penstock_outbox (event_type, data) VALUES ('undefined', '{}')")


def test_transaction_that_began_as_a_read_is_advised_to_begin_immediate(
    sqlite_hub: str, other: sqlite3.Connection
) -> None:
    with closing(connect(sqlite_hub)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM penstock_outbox").fetchone()
        write(other)

        with pytest.raises(SnapshotOutdated, match="BEGIN IMMEDIATE") as caught:
            publish(connection, "undefined", {})

        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert connection.in_transaction


def publish_after_reading(other: sqlite3.Connection) -> None:
    with django.db.connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM penstock_outbox")
        cursor.fetchone()
    write(other)
    publish(django.db.connection, "undefined", {})


def test_outdated_snapshot_is_reported_through_sqlalchemy_and_django(
    sqlite_hub: str, other: sqlite3.Connection
) -> None:
    with engine(sqlite_hub) as opened, opened.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("SELECT count(*) FROM penstock_outbox").all()
        write(other)
        with pytest.raises(SnapshotOutdated):
            publish(connection, "undefined", {})
        connection.rollback()

    with django_on(sqlite_hub), pytest.raises(SnapshotOutdated), django.db.transaction.atomic():
        publish_after_reading(other)


def test_lock_timeout_stays_the_error_of_the_driver_with_advice(sqlite_hub: str, other: sqlite3.Connection) -> None:
    with closing(connect(sqlite_hub, timeout=0)) as connection:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(sqlite3.OperationalError, match="locked") as caught:
            publish(connection, "undefined", {})

        assert "BEGIN IMMEDIATE" in caught.value.__notes__[0]


def test_publish_first_in_a_deferred_transaction_waits_for_the_lock(sqlite_hub: str, other: sqlite3.Connection) -> None:
    asked = threading.Event()
    failures: list[Exception] = []

    def run() -> None:
        with closing(connect(sqlite_hub)) as connection:
            connection.execute("BEGIN")
            connection.set_trace_callback(lambda _statement: asked.set())
            try:
                publish(connection, "undefined", {"n": 2})
                connection.execute("COMMIT")
            except Exception as failure:  # noqa: BLE001 - The test's own thread has to hear of it.
                failures.append(failure)

    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO penstock_outbox (event_type, data) VALUES ('undefined', '{\"n\":1}')")
    publisher = threading.Thread(target=run)
    publisher.start()
    asked.wait()
    other.execute("COMMIT")
    publisher.join()

    assert failures == []
    assert fetch(sqlite_hub, "SELECT data FROM penstock_outbox ORDER BY id") == [('{"n":1}',), ('{"n":2}',)]


def test_refused_publish_outside_a_transaction_leaves_no_lock(sqlite_hub: str, other: sqlite3.Connection) -> None:
    with closing(sqlite3.connect(path_of(sqlite_hub))) as connection:
        with pytest.raises(EventTypeNotFound):
            publish(connection, "order.placed", {})

        assert not connection.in_transaction
