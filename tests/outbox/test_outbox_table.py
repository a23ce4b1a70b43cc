"""A service, its migrations and the hub create the same table."""

import io
import sqlite3
import threading
from contextlib import closing
from typing import Any

import django.core.management
import psycopg

from penstock.outbox import create
from penstock.storage import open_store
from tests.outbox.kinds import django_on, fetch, path_of, with_psycopg, with_sqlite3

COLUMNS = """
    SELECT column_name, data_type, is_nullable, column_default, is_identity, identity_generation
    FROM information_schema.columns WHERE table_name = 'penstock_outbox' ORDER BY ordinal_position
"""
INDEXES = "SELECT indexdef FROM pg_indexes WHERE tablename = 'penstock_outbox' ORDER BY indexdef"
STATEMENTS = "SELECT sql FROM sqlite_master WHERE tbl_name = 'penstock_outbox' ORDER BY name"


def schema(url: str) -> list[tuple[Any, ...]]:
    if url.startswith("sqlite"):
        return [(" ".join((sql or "").split()),) for (sql,) in fetch(url, STATEMENTS)]
    return fetch(url, COLUMNS) + fetch(url, INDEXES)


def create_plainly(url: str) -> None:
    (with_sqlite3 if url.startswith("sqlite") else with_psycopg)(url, create)


def drop_plainly(url: str) -> None:
    drop = "DROP TABLE penstock_outbox"
    (with_sqlite3 if url.startswith("sqlite") else with_psycopg)(url, lambda connection: connection.execute(drop))


def test_service_creates_the_same_table_as_the_hub(hub_url: str) -> None:
    by_the_hub = schema(hub_url)
    drop_plainly(hub_url)

    create_plainly(hub_url)

    assert by_the_hub
    assert schema(hub_url) == by_the_hub


def test_hub_keeps_a_table_made_by_a_service(database_url: str) -> None:
    create_plainly(database_url)
    before = schema(database_url)

    with closing(open_store(database_url)) as store:
        store.migrate()

    assert schema(database_url) == before


def test_django_migration_creates_the_table_and_never_drops_it(database_url: str) -> None:
    with django_on(database_url):
        django.core.management.call_command("migrate", verbosity=0)
        by_django = schema(database_url)
        plan = io.StringIO()
        django.core.management.call_command("sqlmigrate", "penstock_outbox", "0001", stdout=plan)
        django.core.management.call_command("migrate", "penstock_outbox", "zero", verbosity=0)

    assert "CREATE TABLE" in plan.getvalue()
    assert schema(database_url) == by_django
    drop_plainly(database_url)
    create_plainly(database_url)
    assert schema(database_url) == by_django


def test_create_of_an_existing_table_waits_for_no_lock(postgres_hub: str) -> None:
    with psycopg.connect(postgres_hub) as writer, psycopg.connect(postgres_hub) as second:
        writer.execute("INSERT INTO penstock_outbox (event_type, data) VALUES ('undefined', '{}')")
        second.execute("SET LOCAL lock_timeout = '1ms'")

        create(second)


def test_concurrent_creates_both_succeed(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as first, psycopg.connect(postgres_url) as second:
        create(first)
        other = threading.Thread(target=lambda: create(second))
        other.start()
        with psycopg.connect(postgres_url, autocommit=True) as observer:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s"
            while observer.execute(waiting, (second.info.backend_pid,)).fetchone() == (0,):
                assert other.is_alive()
        first.commit()
        other.join()
        second.commit()

    assert fetch(postgres_url, "SELECT count(*) FROM penstock_outbox") == [(0,)]


def test_create_does_not_commit(sqlite_url: str) -> None:
    with closing(sqlite3.connect(path_of(sqlite_url), isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        create(connection)
        connection.execute("ROLLBACK")

    assert schema(sqlite_url) == []
