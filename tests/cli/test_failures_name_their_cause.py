"""What a failed command says: the true cause, and advice that fits the command."""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from penstock.cli.demo.hub_process import HubProcess
from penstock.cli.failures import Failure
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
        failures = [penstock(*command, stdin="{}") for command in (("event-type", "list"), ("publish", "known"))]
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


@pytest.mark.parametrize("command", [("serve",), ("migrate", "--print-sql"), ("doctor",), ("rejected", "list")])
def test_a_path_is_answered_with_the_url_of_that_file(penstock: Command, command: tuple[str, ...]) -> None:
    failed = penstock(*command, "--database", "shop.db")

    assert failed.status == 2
    assert failed.err.splitlines() == [
        "penstock: shop.db is not the URL of a database",
        "  The SQLite file of that name is sqlite:///shop.db; a PostgreSQL database is postgresql://USER@HOST/DATABASE.",
    ]
    assert failed.out == ""
    assert list(penstock.directory.iterdir()) == []


def test_a_path_in_the_environment_is_answered_likewise(penstock: Command) -> None:
    failed = penstock("migrate", PENSTOCK_DATABASE="/var/lib/shop.db")

    assert failed.status == 2
    assert failed.err.startswith("penstock: /var/lib/shop.db is not the URL of a database\n")
    assert " is sqlite:////var/lib/shop.db; " in failed.err


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:1", "socks5://127.0.0.1:1"])
def test_hub_on_loopback_is_asked_directly_and_another_by_the_proxy_that_is_named(at_hub: Command, proxy: str) -> None:
    proxies = {"http_proxy": proxy, "ALL_PROXY": proxy, "no_proxy": ""}
    near = at_hub("event-type", "list", "-o", "json", **proxies)
    far = at_hub("event-type", "list", "--url", "http://hub.example", **proxies)

    assert near.status == 0, near.err
    assert far.status == 1
    assert f"the proxy {proxy}" in far.err
    assert "unset http_proxy, or name " in far.err
    assert "Is the hub running" not in far.err


def test_https_address_of_a_hub_without_tls_is_told_to_be_http(at_hub: Command) -> None:
    https = at_hub.environment["PENSTOCK_URL"].replace("http://", "https://")

    failed = at_hub("event-type", "list", "--url", https)

    assert failed.status == 1
    assert "begin the address with http://" in failed.err


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
    assert ("file is not a database" if text else "newer than the 6 that this Penstock knows") in cause
    assert advice == f"  Its log is in {Path('demo')}/hub.log."


@pytest.mark.parametrize(
    ("says", "shown"),
    [
        ("", ["nothing"]),
        ("Traceback\\n\\n  in a module\\n  in a line\\nMemoryError", ["  in a module", "  in a line", "MemoryError"]),
    ],
)
def test_the_end_of_the_log_tells_of_a_hub_that_ended_without_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, shown: list[str]
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nprintf '{says}' >&2\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))

    with pytest.raises(Failure) as failed, HubProcess("sqlite:///x.db", tmp_path / "hub.log"):
        pass

    assert failed.value.detail == "the hub on sqlite:///x.db did not start"
    assert failed.value.hint
    assert failed.value.hint.splitlines() == [f"The last that it has said, in {tmp_path}/hub.log:", *shown]


@pytest.mark.parametrize(
    ("directory", "why"),
    [
        ("file", "it is a file"),
        ("file/demo", "Not a directory"),
        ("/proc/self", "Permission denied" if os.geteuid() else "No such file or directory"),  # Root cannot either.
    ],
)
def test_where_the_demo_cannot_put_anything_is_named(penstock: Command, directory: str, why: str) -> None:
    (penstock.directory / "file").touch()

    failed = penstock("demo", "--directory", directory)

    assert failed.status == 2
    assert failed.err.splitlines() == [
        f"penstock: {directory} cannot be the demo's directory: {why}",
        "  Name with --directory one that you may write to; it is made where it is not there.",
    ]
