import re
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest

from penstock.storage.postgres import POSTGRES, to_postgres
from penstock.storage.sqlite import SQLITE, to_sqlite
from penstock.storage.statements import SHARED, Dialect


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an empty package named `a_store`, with a package `a_store.shared`."""
    folder = tmp_path / "a_store"
    for name in ("statements", "migrations", "shared"):
        (folder / name).mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "shared" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    import_module("a_store.shared")
    yield folder
    for name in ("a_store", "a_store.shared"):
        del sys.modules[name]


@pytest.fixture
def dialect(package: Path) -> Dialect:
    return Dialect("a_store", shared="a_store.shared")


def test_statement_of_the_dialect_wins_over_the_shared_one(package: Path, dialect: Dialect) -> None:
    for name in ("one", "two"):
        (package / "shared" / f"{name}.sql").write_text("shared")
    (package / "statements" / "two.sql").write_text("own")

    assert [dialect.statements[name] for name in ("one", "two", "two")] == ["shared", "own", "own"]


@pytest.mark.parametrize(
    ("sql", "translated"),
    [
        ("x = :x AND y=:y_2)", "x = %(x)s AND y=%(y_2)s)"),
        (":x::text[] || CAST(:y AS TEXT)", "%(x)s::text[] || CAST(%(y)s AS TEXT)"),
        ("VALUES (?, ?)", "VALUES (%s, %s)"),
        ("a LIKE '%:x?''%' AND b % 2 = 0", "a LIKE '%%:x?''%%' AND b %% 2 = 0"),
        ("-- 5 % of :x, don't ask?\n:x -- :y", "-- 5 %% of :x, don't ask?\n%(x)s -- :y"),
    ],
    ids=["names", "casts", "places", "literals", "comments"],
)
def test_placeholders_are_translated_for_psycopg(sql: str, translated: str) -> None:
    assert to_postgres(sql) == translated


@pytest.mark.parametrize(
    ("shared", "sqlite", "postgres"),
    [
        (
            "a IN (SELECT value FROM json_each(:ids))",
            "a IN (SELECT value FROM json_each(:ids))",
            "a IN (SELECT value FROM json_array_elements_text(%(ids)s::json) AS json_each (value))",
        ),
        ("SELECT a FROM t FOR UPDATE", "SELECT a FROM t", "SELECT a FROM t FOR UPDATE"),
        (
            "(SELECT a\n FOR KEY SHARE SKIP LOCKED) AS b",
            "(SELECT a) AS b",
            "(SELECT a\n FOR KEY SHARE SKIP LOCKED) AS b",
        ),
        ('ORDER BY a COLLATE "C", b', "ORDER BY a, b", 'ORDER BY a COLLATE "C", b'),
        ("greatest(a, b)", "max(a, b)", "greatest(a, b)"),
        ("as_json(t.a) -> 'b'", "t.a -> 'b'", "t.a::json -> 'b'"),
        ("json_group_array(a)", "json_group_array(a)", "coalesce(json_agg(a), '[]')::text"),
        ("'x FOR UPDATE' -- greatest(a, b)", "'x FOR UPDATE' -- greatest(a, b)", "'x FOR UPDATE' -- greatest(a, b)"),
    ],
    ids=[
        "arrays",
        "row locks",
        "locks in subqueries",
        "order",
        "greatest",
        "members",
        "aggregated arrays",
        "literals and comments",
    ],
)
def test_shared_words_are_translated_for_each_database(shared: str, sqlite: str, postgres: str) -> None:
    assert (to_sqlite(shared), to_postgres(shared)) == (sqlite, postgres)


def test_clock_counts_microseconds_since_1970() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        [(micros,)] = connection.execute(to_sqlite("SELECT clock_micros()"))

    assert abs(micros / 1e6 - time.time()) < 60


def own_statements(dialect: Dialect) -> dict[str, str]:
    """Return the files of a dialect, without comments and with blanks made equal."""
    folder = files({SQLITE: "penstock.storage.sqlite", POSTGRES: "penstock.storage.postgres"}[dialect]) / "statements"
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    return {name: " ".join(re.sub(r"--.*", "", text).split()) for name, text in texts.items()}


def test_statement_that_databases_share_is_one_file() -> None:
    sqlite, postgres = own_statements(SQLITE), own_statements(POSTGRES)

    assert [name for name in sqlite if sqlite[name] == postgres.get(name)] == []


def test_shared_statement_has_no_dialect_file_that_hides_it() -> None:
    shared = {file.name for file in files(SHARED).iterdir()}

    assert shared & own_statements(SQLITE).keys() & own_statements(POSTGRES).keys() == set()


def test_migrations_are_sql_files_in_the_order_of_their_numbers(package: Path, dialect: Dialect) -> None:
    for name in ("0002_more.sql", "0001_log.sql", "0010_not_yet.sql.orig", "README.md"):
        (package / "migrations" / name).write_text(name)

    assert [tuple(step) for step in dialect.migrations] == [
        (1, "log", "0001_log.sql"),
        (2, "more", "0002_more.sql"),
    ]
    assert dialect.version == 2


@pytest.mark.parametrize(("found", "lacks"), [(0, ["log", "more"]), (1, ["more"]), (2, [])])
def test_migrations_after_the_version_of_a_database_are_pending(
    package: Path, dialect: Dialect, found: int, lacks: list[str]
) -> None:
    for name in ("0001_log.sql", "0002_more.sql"):
        (package / "migrations" / name).touch()

    assert [step.name for step in dialect.pending(found)] == lacks


@pytest.mark.parametrize("names", [["0002_log.sql"], ["0001_log.sql", "0003_more.sql"], ["0001_a.sql", "0001_b.sql"]])
def test_gap_or_duplicate_in_migration_numbers_is_an_assertion(
    package: Path, dialect: Dialect, names: list[str]
) -> None:
    for name in names:
        (package / "migrations" / name).touch()

    with pytest.raises(AssertionError, match="have a hole"):
        _ = dialect.migrations


def test_both_databases_have_the_same_migrations() -> None:
    """One version number serves both: `doctor` and `DatabaseUnsuitable` do not name the database."""
    assert [step.name for step in POSTGRES.migrations] == [step.name for step in SQLITE.migrations]


APPLIED = {
    "sqlite log": "886c47e951017c2b",
    "sqlite registry": "2831f99cb9102369",
    "sqlite producers": "d36f19ebca6106ef",
    "sqlite subscriptions": "ea654f35e33988a4",
    "sqlite staging": "ea2cd8180ccf8244",
    "sqlite fingerprints": "5ad24e74e344e71f",
    "sqlite successor": "04d5de2d6d98b5ec",
    "sqlite access": "4bd89d6e041af384",
    "sqlite audit": "ccc5822fca563806",
    "sqlite removal": "b0d9633a82fe3f6d",
    "sqlite erasure": "031e45d86d7353f3",
    "sqlite progress": "2fcebfde8e4a9795",
    "sqlite removals": "2356fdedb4f3af01",
    "sqlite cold": "f5f5bfa4aa69565d",
    "sqlite batches": "138decdab83afed5",
    "sqlite groups": "03fe2eb31aee2aed",
    "sqlite begin_append": "e4a6a0577479b2b4",
    "sqlite look": "e4a6a0577479b2b4",
    "postgres log": "2abd3e7bae4c6e50",
    "postgres registry": "76b12f6391e6b54f",
    "postgres producers": "787730db0c3fb65d",
    "postgres subscriptions": "3a3045c2bac683b1",
    "postgres staging": "d9cbb05c30ddfc43",
    "postgres fingerprints": "2dbbfd2606ee46eb",
    "postgres successor": "04d5de2d6d98b5ec",
    "postgres access": "b7f64a9944409f99",
    "postgres audit": "b2176b66b48ae39c",
    "postgres removal": "03e7da246ae3968a",
    "postgres erasure": "89ab50bd0971e4fe",
    "postgres progress": "ed9b671db7b6a011",
    "postgres removals": "258bd6b27e60472d",
    "postgres cold": "f03c8541ebf857ec",
    "postgres batches": "ee54af7bb4fa619b",
    "postgres groups": "d352dad47c3de1d9",
    "postgres begin_append": "00f475b860cc9fae",
    "postgres look": "b467cd88f525bd0f",
}
"""Digests of the migrations that databases may have applied, without their comments."""


@pytest.mark.parametrize("name", APPLIED)
def test_migration_that_databases_may_have_applied_is_never_changed(name: str) -> None:
    database, _, step = name.partition(" ")
    found = {each.name: each.sql for each in {"sqlite": SQLITE, "postgres": POSTGRES}[database].migrations}
    words = re.sub(r"--[^\n]*", "", found[step]).split()

    assert blake2b(" ".join(words).encode(), digest_size=8).hexdigest() == APPLIED[name], (
        "add another migration instead"
    )


def test_each_migration_is_guarded_against_changes() -> None:
    assert {name.partition(" ")[2] for name in APPLIED} == {step.name for step in SQLITE.migrations}
