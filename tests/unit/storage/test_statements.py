import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

from penstock.errors import SchemaTooNew
from penstock.storage.statements import Statements, migrations, missing, statement, version


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an empty package named `a_store`."""
    folder = tmp_path / "a_store"
    for name in ("statements", "migrations"):
        (folder / name).mkdir(parents=True)
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    import_module("a_store")
    yield folder
    for cached in (statement, migrations):
        cached.cache_clear()
    del sys.modules["a_store"]


def test_statement_is_the_text_of_its_file_with_its_comment(package: Path) -> None:
    (package / "statements" / "find.sql").write_text("-- Find it: é.\nSELECT 1\n", encoding="utf-8")

    assert statement("a_store", "find") == "-- Find it: é.\nSELECT 1\n"


def test_missing_statement_raises_file_not_found(package: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"find\.sql"):
        statement("a_store", "find")


def test_statements_are_run_by_name_on_the_connection(package: Path) -> None:
    for name, sql in (
        ("make", "CREATE TABLE thing (n, name)"),
        ("put", "INSERT INTO thing VALUES (?, ?)"),
        ("find", "SELECT n FROM thing WHERE name = :name ORDER BY n"),
        ("drop", "DELETE FROM thing WHERE name = :name"),
    ):
        (package / "statements" / f"{name}.sql").write_text(f"-- See its name.\n{sql}\n")

    with closing(sqlite3.connect(":memory:")) as connection:
        statements = Statements("a_store", connection)
        statements.run("make")
        statements.run_each("put", [(1, "a"), (2, "b"), (3, "a")])

        assert statements.run("find", name="a").fetchall() == [(1,), (3,)]
        assert statements.run("drop", name="a").rowcount == 2
        assert statements.run("find", name="b").fetchall() == [(2,)]


def test_migrations_are_sql_files_in_the_order_of_their_numbers(package: Path) -> None:
    for name in ("0002_more.sql", "0001_log.sql", "0010_not_yet.sql.orig", "README.md"):
        (package / "migrations" / name).write_text(name)

    assert [tuple(step) for step in migrations("a_store")] == [
        (1, "log", "0001_log.sql"),
        (2, "more", "0002_more.sql"),
    ]
    assert version("a_store") == 2


@pytest.mark.parametrize(("found", "lacks"), [(0, ["log", "more"]), (1, ["more"]), (2, [])])
def test_migrations_after_the_version_of_a_database_are_pending(package: Path, found: int, lacks: list[str]) -> None:
    for name in ("0001_log.sql", "0002_more.sql"):
        (package / "migrations" / name).touch()

    assert [step.name for step in missing("a_store", found)] == lacks


def test_database_of_a_newer_penstock_is_refused(package: Path) -> None:
    (package / "migrations" / "0001_log.sql").touch()

    with pytest.raises(SchemaTooNew) as told:
        missing("a_store", 2)

    assert told.value.fields == {"found": 2, "wanted": 1}


@pytest.mark.parametrize("names", [["0002_log.sql"], ["0001_log.sql", "0003_more.sql"], ["0001_a.sql", "0001_b.sql"]])
def test_gap_or_duplicate_in_migration_numbers_is_an_assertion(package: Path, names: list[str]) -> None:
    for name in names:
        (package / "migrations" / name).touch()

    with pytest.raises(AssertionError, match="have a hole"):
        migrations("a_store")


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_both_databases_have_the_same_migrations(database: str) -> None:
    """One Penstock has one version of its tables: `doctor` and `SchemaTooNew` speak of it without naming a database."""
    steps = migrations(f"penstock.storage.{database}")

    assert [step.name for step in steps] == [step.name for step in migrations("penstock.storage.sqlite")]
