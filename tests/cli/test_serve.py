"""`penstock serve`: its log, its refusals, and its end."""

import json
import signal
import socket
import sqlite3
from pathlib import Path
from urllib.request import Request, urlopen

import psycopg
import pytest

from penstock.testing.port import free_port
from tests.cli.breaking import open_for
from tests.cli.command import Command, announced


def get(url: str | Request) -> bytes:
    with urlopen(url, timeout=300) as answer:
        body: bytes = answer.read()
        return body


def answers(url: str) -> bool:
    try:
        get(url)
    except OSError:
        return False
    return True


def test_serve_prints_its_address_and_database(penstock: Command) -> None:
    rows = []
    for _ in range(2):
        with penstock.start("serve", "--port", 0, "--log-format", "text") as serving:
            head = b"".join(serving.stderr.readline() for _ in range(4)).decode()
            url = next(word for word in head.split() if word.startswith("http://127.0.0.1:"))
            assert json.loads(get(f"{url}/health/ready")) == {"status": "ready"}
        assert "Penstock" in head
        assert "WARNING" not in head
        assert f"  console    {url}/console" in head.splitlines()
        rows.append(next(line for line in head.splitlines() if "database" in line))

    assert rows == [
        "  database   sqlite:///penstock.db      created: the file did not exist",
        "  database   sqlite:///penstock.db",
    ]


def test_serve_refuses_addresses_of_others_without_authentication(penstock: Command) -> None:
    refused = penstock("serve", "--port", 0, "--host", "0.0.0.0")

    assert refused.status == 1
    assert "nobody would be asked who they are" in refused.err
    assert "--auth token" in refused.err
    assert "--insecure" in refused.err


@pytest.mark.parametrize(
    "options",
    [
        ("--auth", "token", "--insecure"),
        ("--admin", "user:jane"),
        ("--default-access", "closed"),
        ("--auth", "password"),
        ("--auth", "token", "--admin", "jane"),
        ("--auth", "token", "--admin", "usr:jane"),
        ("--limit", "requests=1", "--limit", "requests=2"),
    ],
)
def test_serve_refuses_options_of_access_that_contradict_each_other(
    penstock: Command, options: tuple[str, ...]
) -> None:
    assert penstock("serve", "--port", 0, *options).status == 2


@pytest.mark.parametrize("option", [("--cold-after", "7d"), ("--cold-columns", "json"), ("--cold-tables", "delta")])
def test_serve_refuses_options_of_a_cold_tier_without_one(penstock: Command, option: tuple[str, str]) -> None:
    refused = penstock("serve", "--port", 0, *option)

    assert refused.status == 2
    assert f"{option[0]} needs --cold as well" in " ".join(refused.err.split())
    assert not (penstock.directory / "penstock.db").exists()


def test_serve_warns_if_it_listens_on_all_addresses(penstock: Command) -> None:
    with penstock.start("serve", "--port", 0, "--host", "0.0.0.0", "--insecure", "--log-format", "text") as serving:
        said = b"".join(serving.stderr.readline() for _ in range(6)).decode()

    assert "WARNING" in said
    assert "no authentication" in said


def test_serve_logs_json_lines_with_each_request(penstock: Command) -> None:
    with penstock.start("serve", "--port", 0, "--host", "0.0.0.0", "--insecure") as serving:
        said = [json.loads(serving.stderr.readline())]
        while said[-1]["event"] != "serving":
            said.append(json.loads(serving.stderr.readline()))
        warning = json.loads(serving.stderr.readline())
        url = said[-1]["url"].replace("0.0.0.0", "127.0.0.1")
        assert penstock("event-type", "create", "seen", "--url", url).status == 0
        get(f"{url}/feeds/seen?n=1&cursor0=_first")
        line = {}
        while line.get("event") != "read":
            line = json.loads(serving.stderr.readline())

    assert [each["created"] for each in said if "created" in each] == [True]
    assert warning["level"] == "warning"
    assert line["logger"] == "penstock.access"
    assert (line["feed"], line["consumer"], line["n"], line["events"]) == ("seen", "-", 1, 0)


def test_log_of_level_error_is_empty(penstock: Command) -> None:
    port = free_port()
    with penstock.start("serve", "--port", port, "--log-level", "error") as serving:
        while not answers(f"http://127.0.0.1:{port}/health/live"):
            assert serving.poll() is None
        serving.send_signal(signal.SIGTERM)

        assert serving.wait(300) == 0
        assert serving.stderr.read() == b""


def test_request_in_progress_is_answered_after_sigterm(penstock: Command) -> None:
    with penstock.start("serve", "--port", 0) as serving:
        url = announced(serving)
        assert penstock("event-type", "create", "slow", "--url", url).status == 0
        host, port = url.removeprefix("http://").split(":")
        body = b'{"data":{"n":1}}\n'
        with socket.create_connection((host, int(port)), timeout=300) as line:
            line.sendall(
                b"POST /feeds/slow HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                % len(body)
            )
            line.sendall(body[:4])
            get(f"{url}/health/live")  # It has read what came before.
            serving.send_signal(signal.SIGTERM)
            while b'"stopping"' not in serving.stderr.readline():
                pass
            line.sendall(body[4:])
            answer = b""
            while more := line.recv(65_536):
                answer += more

        assert answer.startswith(b"HTTP/1.1 200")
        assert b'"count":1' in answer
        assert serving.wait(300) == 0


def test_port_in_use_is_named_with_advice(penstock: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        failed = penstock("serve", "--port", port)

    assert failed.status == 1
    assert failed.err.splitlines() == [
        f"penstock: cannot listen on 127.0.0.1:{port}: Address already in use",
        f"  Something else listens there. Stop it, or choose another port: --port {port + 1}.",
    ]


@pytest.mark.usefixtures("short_database_wait")
@pytest.mark.parametrize(
    ("database", "says"),
    [
        ("postgresql://me:secret@127.0.0.1:1/none", "Connection refused"),
        ("sqlite:///text.db", "file is not a database"),
        ("sqlite:///.", "is a directory"),
        ("sqlite:////proc/none.db", "unable to open database file"),
    ],
)
def test_unusable_database_is_named_without_its_password(penstock: Command, database: str, says: str) -> None:
    (penstock.directory / "text.db").write_text("This is a text, and no database.\n" * 100)

    failed = penstock("serve", "--port", 0, "--database", database)

    assert failed.status == 1
    assert says in failed.err
    assert "secret" not in failed.err
    assert len(failed.err.splitlines()) == 2
    assert "Traceback" not in failed.err


@pytest.mark.parametrize("command", [("serve", "--port", 0), ("migrate",)])
def test_missing_directory_is_not_created(penstock: Command, command: tuple[object, ...]) -> None:
    failed = penstock(*command, "--database", "sqlite:///mistyped/shop.db")

    assert failed.status == 1
    assert failed.err.splitlines() == [
        f"penstock: there is no directory {penstock.directory}/mistyped",
        "  Create it, or correct --database.",
    ]
    assert list(penstock.directory.iterdir()) == []


@pytest.mark.parametrize(
    "command", [("restored",), ("rejected", "list"), ("rejected", "retry", "--all"), ("serve", "--no-migrate")]
)
def test_missing_file_is_created_by_migrate_only(penstock: Command, command: tuple[str, ...]) -> None:
    failed = penstock(*command, "--database", "sqlite:///shop.db", PENSTOCK_PORT="0")

    assert failed.status == 1
    assert failed.err.splitlines() == [
        f"penstock: there is no file {penstock.directory}/shop.db",
        "  Correct --database, or create the file: `penstock migrate --database sqlite:///shop.db`.",
    ]
    assert list(penstock.directory.iterdir()) == []


def test_migrate_reports_a_new_file(penstock: Command) -> None:
    assert penstock("migrate").out.startswith("sqlite:///penstock.db is new and up to date")
    assert penstock("migrate", "-o", "json").json["created"] is False
    assert penstock("migrate", "-o", "json", "--database", "sqlite:///other.db").json["created"] is True


def test_role_without_the_right_to_create_tables_is_refused(penstock: Command, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE weak LOGIN")
    try:
        failed = penstock("serve", "--port", 0, "--database", postgres_url.replace("postgres@", "weak@"))
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP ROLE weak")

    assert failed.status == 1
    cause, advice = failed.err.splitlines()
    assert "permission denied for schema public" in cause
    assert advice.startswith("  Run `penstock migrate` as a role that owns the tables, then serve with --no-migrate.")


def test_database_lost_just_after_the_start_causes_no_traceback(penstock: Command, postgres_url: str) -> None:
    port = int(postgres_url.rpartition("/")[0].rpartition(":")[2])
    assert penstock("migrate", "--database", postgres_url).status == 0
    with (
        open_for(port, connections=1) as door,
        penstock.start("serve", "--port", 0, "--database", postgres_url.replace(f":{port}/", f":{door}/")) as serving,
    ):
        url = announced(serving)
        live = get(f"{url}/health/live")
        serving.send_signal(signal.SIGTERM)
        status = serving.wait(300)
        said = serving.stderr.read()

    assert json.loads(live)["status"]
    assert status == 0
    assert b"Traceback" not in said


def test_newer_or_missing_schema_is_refused(penstock: Command, database_url: str) -> None:
    if database_url.startswith("sqlite"):
        Path(database_url.removeprefix("sqlite:///")).touch()
    missing = penstock("serve", "--port", 0, "--no-migrate", "--database", database_url)
    assert penstock("migrate", "--database", database_url).status == 0
    raise_version(database_url)
    newer = penstock("serve", "--port", 0, "--database", database_url)

    assert missing.status == newer.status == 1
    assert missing.err.splitlines()[1] == "  Run `penstock migrate` with the same --database."
    assert "newer than" in newer.err
    assert "Install the version of Penstock that migrated the database" in newer.err


def test_environment_sets_options_and_links_follow_the_prefix_of_a_trusted_proxy(penstock: Command) -> None:
    variables = {"PENSTOCK_DATABASE": "sqlite:///other.db", "PENSTOCK_PORT": "0"}
    with penstock.start("serve", **variables, PENSTOCK_TRUSTED_PROXIES="10.0.0.0/8 127.0.0.1") as serving:
        headers = {"X-Forwarded-Prefix": "/hub", "X-Forwarded-For": "192.0.2.1"}
        assert json.loads(get(Request(announced(serving), headers=headers)))["docs"] == "/hub/docs"

    assert (penstock.directory / "other.db").exists()
    assert penstock("serve", PENSTOCK_PORT="many").status == 2
    refused = penstock("serve", "--trusted-proxy", "proxy.example")
    assert (refused.status, "proxy.example" in refused.err) == (2, True)


def raise_version(url: str) -> None:
    """Leave the database as a Penstock of the future would."""
    sql = "INSERT INTO penstock_migration VALUES (99, 'future')"
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.execute(sql)
        connection.close()
    else:
        with psycopg.connect(url) as session:
            session.execute(sql)
