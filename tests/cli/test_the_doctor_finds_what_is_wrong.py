"""`penstock doctor`, and `penstock migrate` beside it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

from tests.cli.command import Command


def verdicts(penstock: Command, database: str) -> dict[str, str]:
    examined = penstock("doctor", "--database", database, "-o", "json")
    found = examined.json
    assert found["ok"] == (examined.status == 0)
    return {each["name"]: each["verdict"] for each in found["checks"]}


def test_a_sound_database_is_found_so(penstock: Command, database_url: str) -> None:
    assert penstock("migrate", "--database", database_url).status == 0

    found = verdicts(penstock, database_url)

    names = ["database", "schema", "durability", "long transactions", "outbox", "rejected"]
    assert [name for name in found if name not in {"spark", "java"}] == names
    assert all(found[name] == "ok" for name in names)
    assert {"spark", "java"} <= found.keys()


def test_people_get_a_list(penstock: Command, sqlite_url: str) -> None:
    penstock("migrate", "--database", sqlite_url)

    examined = penstock("doctor", "--database", sqlite_url)

    assert any(line.split()[:2] == ["ok", "schema"] for line in examined.out.splitlines())


def test_missing_tables_and_rejected_rows_are_found(penstock: Command, sqlite_url: str) -> None:
    file = sqlite_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE other (n integer)")
    assert verdicts(penstock, sqlite_url)["schema"] == "wrong"

    penstock("migrate", "--database", sqlite_url)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "INSERT INTO penstock_rejected (id, event_type, data, created_at, rejected_at, reason)"
            " VALUES (1, 'x', '{}', '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z', 'no such event type')"
        )
    assert verdicts(penstock, sqlite_url)["rejected"] == "wrong"
    examined = penstock("doctor", "--database", sqlite_url)
    assert examined.status == 1
    assert "1 outbox rows could not be published" in examined.out


def test_a_database_that_is_not_there_is_not_created(penstock: Command) -> None:
    examined = penstock("doctor", "--database", "sqlite:///none.db")

    assert examined.status == 1
    assert "there is no file none.db" in examined.out
    assert not (penstock.directory / "none.db").exists()


def test_a_server_that_does_not_answer_is_found(penstock: Command) -> None:
    assert verdicts(penstock, "postgresql://nobody@127.0.0.1:1/none")["database"] == "wrong"


def test_without_java_spark_cannot_run(penstock: Command, sqlite_url: str, tmp_path: Path) -> None:
    penstock("migrate", "--database", sqlite_url)

    examined = penstock("doctor", "--database", sqlite_url, JAVA_HOME=str(tmp_path))

    assert examined.status == 1
    assert any(line.startswith("WRONG") and "java" in line for line in examined.out.splitlines())


def test_migrating_tells_what_was_run(penstock: Command, database_url: str) -> None:
    first = penstock("migrate", "--database", database_url, "-o", "json").json
    second = penstock("migrate", "--database", database_url)

    assert first["ran"][0] == "0001 log"
    assert "there was nothing to do" in second.out


def test_printed_sql_makes_the_same_tables_on_sqlite(penstock: Command, sqlite_url: str) -> None:
    script = penstock("migrate", "--print-sql", "--database", sqlite_url).out
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
        connection.executescript(script)

    assert verdicts(penstock, sqlite_url)["schema"] == "ok"
    assert penstock("migrate", "--database", sqlite_url, "-o", "json").json["ran"] == []


def test_printed_sql_makes_the_same_tables_on_postgres(penstock: Command, postgres_url: str) -> None:
    script = penstock("migrate", "--print-sql", "--database", postgres_url).out
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(script.encode())

    assert verdicts(penstock, postgres_url)["schema"] == "ok"
    assert penstock("migrate", "--database", postgres_url, "-o", "json").json["ran"] == []


def test_printing_touches_nothing(penstock: Command) -> None:
    assert penstock("migrate", "--print-sql").status == 0
    assert list(penstock.directory.iterdir()) == []
    assert penstock("migrate", "--print-sql", "--database", "mysql://x").status == 1
