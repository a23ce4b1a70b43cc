"""A failed command prints the cause and advice that fits the command; wrong usage is named in plain words."""

import os
import re
import shlex
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from penstock.cli.failures import CommandFailure
from penstock.testing.live_hub import live_hub
from penstock.testing.postgres import PostgresCluster
from penstock_demo.hub_process import HubProcess
from tests.cli.command import Command


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        ("publish x --batch ten", "Invalid value for '--batch': 'ten' is not a whole number"),
        ("publish x --batch 0", "Invalid value for '--batch': 0 is less than 1"),
        ("serve --port 99999", "99999 is more than 65535"),
        ("tail x --from middle", "--from: 'middle' is not earliest, latest, a time such as"),
        ("rejected list 7 eight", "Invalid value for 'ID': 'eight' is not a whole number"),
        ("publish", "Missing argument 'EVENT_TYPE'."),
        ("event-type show", "Missing argument 'NAME'."),
        ("tail x --bogus", "No such option: --bogus"),
        ("pblish", "No such command 'pblish'. Did you mean 'publish'?"),
        ("event-type create", "give the event type a NAME, or a --file that has one"),
        ("event-type create --file none.json", "none.json cannot be read: No such file or directory"),
        ("event-type create x --category nonsense", "'--category': 'nonsense' is not one of 'undefined', 'business'"),
        ("event-type create x --partitions 0", "Invalid value for '--partitions': 0 is less than 1"),
        ("event-type check", "Missing argument 'FILE"),
        ("event-type check . ", "FILE: . cannot be read: Is a directory"),
        ("event-type check x.yaml --against localhost:1", "'--against': 'localhost:1' is not an address"),
        ("event-type list --url localhost:1", "(env var: 'PENSTOCK_URL'): 'localhost:1' is not an address"),
        ("tail x --from earliest -n 2", "--from and --last N both say where to start: give one of them"),
        ("tail x --kind a --skip-kind b", "--kind and --skip-kind exclude each other"),
        ("publish x --from-line 3 --producer-group nightly", "--from-line: the hub knows where to go on"),
        ("publish x --producer-group 'two words'", "'two words' is not 1 to"),
        ("groups reset g", "--to: say where to, by --to, by --offset or by --like"),
        ("groups reset g --to latest --offset 7", "--to: say where to, by --to, by --offset or by --like"),
        ("groups reset g --offset 7", "--partition: an offset is one of a partition: say which"),
        ("rejected retry", "say which rows: by ID, by --event-type, or --all"),
        ("rejected delete", "say which rows: by ID, by --event-type, or --all"),
        ("rejected retry 1 --all", "--all means all rows: leave out it, or the IDs and --event-type"),
        ("rejected delete --event-type a --all", "--all means all rows: leave out it, or the IDs and --event-type"),
        ("rejected retry 0", "Invalid value for 'ID': 0 is less than 1"),
        (f"rejected retry {2**63}", f"Invalid value for 'ID': {2**63} is more than"),
        ("groups parked retry mailer --database sqlite:///x.db", "WHICH: say which, by its id or name, or by --all"),
        ("groups parked retry 5f0c", "WHICH: say which, by its id or name, or by --all"),
        ("groups parked retry 5f0c 7 --all", "WHICH: say which, by its id or name, or by --all"),
        ("groups parked show 5f0c", "Missing argument 'WHICH'."),
        *((f"groups parked skip 5f0c 7{reason}", "--reason: say why these events are not wanted, such as")
          for reason in ("", " --reason ''", " --reason '  '")),
    ],
)  # fmt: skip
def test_wrong_usage_is_named_with_the_value(penstock: Command, mistake: str, says: str) -> None:
    refused = penstock(*shlex.split(mistake), COLUMNS="200")

    assert refused.status == 2
    assert says in refused.err
    assert "Input should" not in refused.err
    assert "Errno" not in refused.err


def test_wrong_variable_of_the_environment_is_named(penstock: Command) -> None:
    refused = penstock("serve", PENSTOCK_MIGRATE="perhaps", COLUMNS="200")

    assert refused.status == 2
    assert "(env var: 'PENSTOCK_MIGRATE'): 'perhaps' is neither true nor false" in refused.err


@pytest.mark.parametrize("command", ["serve", "migrate --print-sql", "doctor", "rejected list"])
def test_path_instead_of_a_database_url_is_answered_with_the_url(penstock: Command, command: str) -> None:
    failed = penstock(*command.split(), "--database", "shop.db")
    in_environment = penstock(*command.split(), PENSTOCK_DATABASE="/var/lib/shop.db")

    assert (failed.status, in_environment.status) == (2, 2)
    assert failed.err.splitlines() == [
        "penstock: shop.db is not the URL of a database",
        "  The SQLite file of that name is sqlite:///shop.db; a PostgreSQL database is postgresql://USER@HOST/DATABASE.",
    ]
    assert in_environment.err.startswith("penstock: /var/lib/shop.db is not the URL of a database\n")
    assert " is sqlite:////var/lib/shop.db; " in in_environment.err
    assert failed.out == ""
    assert list(penstock.directory.iterdir()) == []


@pytest.mark.usefixtures("short_database_wait")
def test_hub_without_its_database_is_reported_without_naming_an_option(
    penstock: Command, postgres_cluster: PostgresCluster, postgres_url: str
) -> None:
    with live_hub(postgres_url) as hub:
        penstock = penstock.at(hub.url)
        penstock("event-type", "create", "known")
        postgres_cluster.kill()
        failures = [penstock(*command, stdin="{}") for command in (("event-type", "list"), ("publish", "known"))]
        postgres_cluster.start()

    advice = "  The hub is there, its database is not: run `penstock doctor` where the hub runs."
    for failed in failures:
        assert failed.status == 1
        assert failed.err.startswith("penstock: the database cannot be used now: ")
        assert failed.err.splitlines()[1] == advice
        assert "--database" not in failed.err


@pytest.mark.usefixtures("short_database_wait")
def test_locked_database_file_is_reported_as_locked(penstock: Command) -> None:
    penstock("migrate")
    with closing(sqlite3.connect(penstock.directory / "penstock.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        failed = penstock("restored", "--yes")
        connection.execute("ROLLBACK")

    assert failed.status == 1
    assert failed.err.splitlines() == [
        "penstock: the database cannot be used now: sqlite:///penstock.db: database is locked (SQLITE_BUSY)",
        "  Something else holds the file in a transaction: try again when that has ended.",
    ]


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:1", "socks5://127.0.0.1:1"])
def test_hub_on_loopback_is_asked_directly_and_another_by_the_named_proxy(at_hub: Command, proxy: str) -> None:
    proxies = {"http_proxy": proxy, "ALL_PROXY": proxy, "no_proxy": ""}
    near = at_hub("event-type", "list", "-o", "json", **proxies)
    far = at_hub("event-type", "list", "--url", "http://hub.example", **proxies)

    assert near.status == 0, near.err
    assert far.status == 1
    assert f"the proxy {proxy}" in far.err
    assert "unset http_proxy, or name " in far.err
    assert "Is the hub running" not in far.err


def test_https_address_of_a_hub_without_tls_is_answered_with_http(at_hub: Command) -> None:
    https = at_hub.environment["PENSTOCK_URL"].replace("http://", "https://")

    failed = at_hub("event-type", "list", "--url", https)

    assert failed.status == 1
    assert "begin the address with http://" in failed.err


# The demo


def test_demo_reports_why_its_hub_did_not_start(penstock: Command) -> None:
    (penstock.directory / "demo").mkdir()
    with closing(sqlite3.connect(penstock.directory / "demo" / "penstock.db")) as connection, connection:
        connection.execute("CREATE TABLE penstock_migration (number integer PRIMARY KEY, name text NOT NULL)")
        connection.execute("INSERT INTO penstock_migration VALUES (99, 'of the future')")

    failed = penstock("demo", "--directory", "demo", "--rows", 1)

    cause, advice = failed.err.splitlines()[-2:]
    assert failed.status == 1
    assert cause.startswith("penstock: the hub on sqlite:///demo/penstock.db did not start: ")
    assert re.search(r"newer than \d+, the newest that this Penstock knows", cause)
    assert advice == f"  Its log is in {Path('demo')}/hub.log."


@pytest.mark.parametrize(
    ("says", "shown"),
    [
        ("", ["nothing"]),
        ("Traceback\\n\\n  in a module\\n  in a line\\nMemoryError", ["  in a module", "  in a line", "MemoryError"]),
    ],
    ids=["silent", "traceback"],
)
def test_demo_shows_the_end_of_the_log_of_a_hub_that_ended_without_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, shown: list[str]
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nprintf '{says}' >&2\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))

    with pytest.raises(CommandFailure) as failed, HubProcess("sqlite:///x.db", tmp_path / "hub.log"):
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
def test_unusable_directory_of_the_demo_is_named(penstock: Command, directory: str, why: str) -> None:
    (penstock.directory / "file").touch()

    failed = penstock("demo", "--directory", directory)

    assert failed.status == 2
    assert failed.err.splitlines() == [
        f"penstock: {directory} cannot be the demo's directory: {why}",
        "  Name with --directory one that you may write to; it is made where it is not there.",
    ]
