"""A publish sends few statements, needs no other library, and works with any connection, and only with one."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import Any

import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from psycopg.rows import dict_row

from penstock.outbox import publish, publish_many
from tests.outbox.kinds import engine, fetch, path_of

ALONE = """
import sqlite3, sys
import penstock.outbox
connection = sqlite3.connect(sys.argv[1])
with connection:
    penstock.outbox.publish(connection, "undefined", {"n": 1})
connection.close()
loaded = {"psycopg", "asyncpg", "sqlalchemy", "django", "pydantic", "pyarrow", "httpx2", "starlette"} & set(sys.modules)
assert not loaded, loaded
"""


def test_publish_imports_no_heavy_library_and_no_other_database_driver(sqlite_hub: str) -> None:
    subprocess.run([sys.executable, "-c", ALONE, path_of(sqlite_hub)], check=True)

    assert fetch(sqlite_hub, "SELECT data FROM penstock_outbox") == [('{"n":1}',)]


def test_publish_on_sqlite_is_one_insert_if_the_event_type_is_known(sqlite_hub: str) -> None:
    said: list[str] = []
    with closing(sqlite3.connect(path_of(sqlite_hub), isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        publish_many(connection, "undefined", [{}] * 10)
        connection.set_trace_callback(said.append)
        publish_many(connection, "undefined", [{}] * 10)
        publish(connection, "undefined", {})
        connection.set_trace_callback(None)
        assert connection.in_transaction
        connection.execute("ROLLBACK")

    assert [statement.split()[0] for statement in said] == ["INSERT", "INSERT"]


def test_publish_on_postgres_is_one_insert_if_the_event_type_is_known(postgres_hub: str) -> None:
    said: list[str] = []
    with engine(postgres_hub) as opened, opened.connect() as connection:
        publish(connection, "undefined", {})

        @sqlalchemy.event.listens_for(opened, "before_cursor_execute")
        def hear(_connection: Any, _cursor: Any, statement: str, *_others: Any) -> None:
            said.append(statement)

        publish_many(connection, "undefined", [{}] * 10)
        publish(connection, "undefined", {})
        assert connection.in_transaction()

    assert [statement.split()[0] for statement in said] == ["WITH", "INSERT"]


def test_publish_outside_a_transaction_is_committed(hub_url: str) -> None:
    if hub_url.startswith("sqlite"):
        with closing(sqlite3.connect(path_of(hub_url), isolation_level=None)) as plain:
            publish_many(plain, "undefined", [{}] * 3)
            assert not plain.in_transaction
            seen = fetch(hub_url, "SELECT count(*) FROM penstock_outbox")
    else:
        with psycopg.connect(hub_url, autocommit=True) as session:
            publish_many(session, "undefined", [{}] * 3)
            seen = fetch(hub_url, "SELECT count(*) FROM penstock_outbox")

    assert seen == [(3,)]


def test_publish_works_with_any_subclass_and_row_and_text_factory(sqlite_hub: str, postgres_hub: str) -> None:
    class Traced(sqlite3.Connection):
        """As a tracing library makes it."""

    with closing(sqlite3.connect(path_of(sqlite_hub), factory=Traced)) as connection, connection:
        connection.row_factory = lambda _cursor, row: {"row": row}
        connection.text_factory = bytes
        publish(connection, "business", {})
    options: dict[str, Any] = {"row_factory": dict_row, "cursor_factory": psycopg.RawCursor}
    with psycopg.connect(postgres_hub, **options) as session:
        publish(session, "business", {})

    for url in (sqlite_hub, postgres_hub):
        [(data,)] = fetch(url, "SELECT data FROM penstock_outbox")
        assert "eid" in data


def test_publish_works_in_a_psycopg_pipeline(postgres_hub: str) -> None:
    with psycopg.connect(postgres_hub) as session, session.pipeline():
        publish(session, "undefined", {"n": 1})
        publish_many(session, "undefined", [{"n": 2}, {"n": 3}])

    assert fetch(postgres_hub, "SELECT count(*) FROM penstock_outbox") == [(3,)]


def test_object_that_is_no_connection_is_refused(sqlite_url: str, postgres_url: str) -> None:
    class Connection:
        """Nobody's connection."""

    with closing(sqlite3.connect(":memory:")) as connection, engine(sqlite_url) as opened:
        pool = psycopg_pool.ConnectionPool(postgres_url, open=False)
        for given in (connection.cursor(), opened, pool, None, "sqlite:///shop.db", Connection()):
            with pytest.raises(TypeError, match=r"psycopg\.Connection.*Django's connection"):
                publish(given, "undefined", {})


def test_database_of_another_make_is_refused(sqlite_url: str) -> None:
    with engine(sqlite_url) as opened, opened.connect() as connection:
        connection.dialect.name = "oracle"
        with pytest.raises(TypeError, match=r"SQLite and PostgreSQL.*oracle"):
            publish(connection, "undefined", {})
