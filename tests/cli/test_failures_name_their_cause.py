"""What a failed command says: the true cause, and advice that fits the command."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.testing.live_hub import live_hub
from penstock.testing.postgres import PostgresCluster
from tests.cli.command import Command


def test_a_hub_without_its_database_is_no_matter_of_an_option_that_is_not_there(
    penstock: Command, postgres_cluster: PostgresCluster, postgres_url: str
) -> None:
    with live_hub(postgres_url) as hub:
        penstock.environment["PENSTOCK_URL"] = hub.url
        penstock("event-type", "create", "known")
        postgres_cluster.kill()
        failures = [penstock(*command, given="{}") for command in (("event-type", "list"), ("publish", "known"))]
        postgres_cluster.start()

    for failed in failures:
        assert failed.status == 1
        assert failed.err.startswith("penstock: the database cannot be used now: ")
        assert (
            failed.err.splitlines()[1]
            == "  The hub is there, its database is not: run `penstock doctor` where the hub runs."
        )
        assert "--database" not in failed.err


def test_a_file_that_is_held_is_not_called_a_wrong_option(penstock: Command) -> None:
    penstock("migrate")
    with closing(sqlite3.connect(penstock.directory / "penstock.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        failed = penstock("restored")
        connection.execute("ROLLBACK")

    assert failed.status == 1
    assert failed.err.splitlines() == [
        "penstock: the database cannot be used now: sqlite:///penstock.db: database is locked (SQLITE_BUSY)",
        "  Something else holds the file in a transaction: try again when that has ended.",
    ]


@pytest.mark.parametrize("text", ["", "This is no database.\n" * 100])
def test_the_hub_of_the_demo_says_itself_why_it_did_not_start(penstock: Command, text: str) -> None:
    directory = penstock.directory / "demo"
    directory.mkdir()
    database = directory / "penstock.db"
    if text:
        database.write_text(text)
    else:
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("CREATE TABLE penstock_migration (number integer PRIMARY KEY, name text NOT NULL)")
            connection.execute("INSERT INTO penstock_migration VALUES (99, 'of the future')")

    failed = penstock("demo", "--directory", "demo", "--rows", 1)

    cause, advice = failed.err.splitlines()[-2:]
    assert failed.status == 1
    assert cause.startswith("penstock: the hub on sqlite:///demo/penstock.db did not start: ")
    assert ("file is not a database" if text else "newer than the 1 that this Penstock knows") in cause
    assert advice == f"  Its log is in {Path('demo')}/hub.log."
