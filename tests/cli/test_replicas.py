"""`penstock replicas`, and `penstock serve --replica`."""

from contextlib import closing
from pathlib import Path

import pytest

from penstock.storage import open_store
from tests.cli.command import Command


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A database with tables."""
    url = f"sqlite:///{tmp_path}/hub.db"
    with closing(open_store(url)) as store:
        store.migrate()
    return url


def test_readers_of_replicas_are_shown_and_replaced(penstock: Command, database: str) -> None:
    everybody, some = "The reads of all callers may go to replicas\n", "Reads that may go to replicas: those of "
    for options, told in (
        ((), everybody),
        (("--only", "service:analytics", "--only", "user:jane"), f"{some}service:analytics, user:jane\n"),
        (("--nobody",), f"{some}nobody\n"),
        ((), f"{some}nobody\n"),
        (("--everybody",), everybody),
    ):
        assert penstock("replicas", "readers", *options, PENSTOCK_DATABASE=database).out == told
    shown = penstock("replicas", "readers", "--only", "service:a", "-o", "json", PENSTOCK_DATABASE=database).json
    assert shown == {"readers": ["service:a"]}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--nobody", "--everybody"), "exclude each other"),
        (("--nobody", "--only", "service:a"), "exclude each other"),
        (("--only", "analytics"), "analytics"),
    ],
)
def test_wrong_readers_of_replicas_are_refused(
    penstock: Command, database: str, options: tuple[str, ...], says: str
) -> None:
    refused = penstock("replicas", "readers", *options, PENSTOCK_DATABASE=database)

    assert refused.status != 0
    assert says in refused.err


def test_replica_of_a_sqlite_database_is_refused_without_its_password(penstock: Command, database: str) -> None:
    refused = penstock("serve", "--database", database, "--port", "0", "--replica", "postgresql://me:secret@db2/shop")

    assert refused.status != 0
    assert "SQLite database has no replicas" in refused.err
    assert "secret" not in refused.err


def test_replica_that_is_the_primary_is_refused_without_its_password(penstock: Command, postgres_url: str) -> None:
    replica = postgres_url.replace("postgres@", "postgres:secret@")

    refused = penstock("serve", "--database", postgres_url, "--port", "0", PENSTOCK_REPLICAS=replica)

    assert refused.status != 0
    assert "it is not in recovery" in refused.err
    assert "secret" not in refused.err
