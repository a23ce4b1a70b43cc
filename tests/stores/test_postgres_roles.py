"""The roles of docs/guides/production.md can do what their work needs, on PostgreSQL, and no more."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import penstock.outbox
from penstock.cli.restored import restored
from penstock.cli.token import create
from penstock.storage import open_store
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.postgres import PostgresCluster
from tests.cli.command import Command, clean_environment
from tests.nakadi import Nakadi
from tests.promises.scene import NAME, Remote, until
from tests.served import client_of
from tests.standby import Standby
from tests.subscribing import filled

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "production.md").read_text(encoding="utf-8")
ROLES = ("penstock_owner", "penstock_hub", "penstock_reader", "shop")


def run(url: str, block: str) -> None:
    """Run a block of SQL of the page."""
    [script] = re.findall(rf"^```sql postgresql {block}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(script.encode())


def as_role(url: str, role: str) -> str:
    """Return *url* for another role."""
    return url.replace("postgres@", f"{role}@")


@pytest.fixture
def roles_url(postgres_url: str) -> Iterator[str]:
    """A database that was migrated and whose rights were granted as the page says."""
    run(postgres_url, "superuser")
    try:
        owner = as_role(postgres_url, "penstock_owner")
        run(owner, "owner")
        with closing(open_store(owner)) as store:
            store.migrate()
        run(owner, "rights")
        yield postgres_url
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            for role in ROLES:
                connection.execute(f"DROP OWNED BY {role} CASCADE".encode())
                connection.execute(f"DROP ROLE {role}".encode())


@pytest.fixture
def served(roles_url: str) -> Iterator[LiveHub]:
    """A hub that serves as its role."""
    with live_hub(as_role(roles_url, "penstock_hub"), options=["--no-migrate"]) as hub:
        yield hub


def refused(url: str, *statements: str) -> None:
    """Assert that the role of *url* may do none of these."""
    for statement in statements:
        with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())


def test_hub_role_serves_everything(served: LiveHub, roles_url: str) -> None:
    with closing(Remote(served.port)) as remote, client_of(served) as http:
        remote.create()
        assert remote.publish({"n": 0})[0] == 200
        with psycopg.connect(as_role(roles_url, "shop")) as shop:
            penstock.outbox.publish(shop, NAME, {"n": 1}, partition=0)
        until(lambda: remote.all() == [{"n": 0}, {"n": 1}], "the outbox is moved")

        producer = {"Producer-Group": "billing", "Producer-Epoch": "0", "Producer-Sequence": "0"}
        at = f"/event-types/{NAME}/partitions/0"
        assert http.put(f"{at}/producers/billing", json={}).status_code == 200
        answer = http.post(f"{at}/events", json=[{"n": 2}], headers=producer)
        assert answer.status_code == 200, answer.text
        subscription = filled(Nakadi(http), 3)
        with subscription.stream(batch_flush_timeout=1) as consumer:
            batches = consumer.batches(3)
            consumer.done(*batches)
        assert subscription.committed() == [batches[-1].offset]
        subscription.drop()
        assert http.delete(f"/event-types/{NAME}").status_code == 200
        assert http.get("/health/ready").status_code == 200


def test_hub_role_announces_a_restore_and_keeps_tokens(roles_url: str) -> None:
    hub = as_role(roles_url, "penstock_hub")

    restored(hub, yes=True)
    create("billing", database=hub)

    with psycopg.connect(hub) as connection:
        assert connection.execute("SELECT application FROM penstock_token").fetchall() == [("billing",)]


def test_hub_role_cannot_change_events_or_tables(served: LiveHub, roles_url: str) -> None:
    hub = as_role(roles_url, "penstock_hub")
    with closing(Remote(served.port)) as remote:
        remote.create()
        remote.publish({"n": 0})

    refused(
        hub,
        "CREATE TABLE mine (n integer)",
        "TRUNCATE penstock_event",
        "SET session_replication_role = replica",
    )
    for statement in ("DROP TABLE penstock_event", "ALTER TABLE penstock_event DISABLE TRIGGER ALL"):
        with psycopg.connect(hub) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())
    for statement in ("UPDATE penstock_event SET data = ''", "DELETE FROM penstock_event"):
        with psycopg.connect(hub) as connection, pytest.raises(psycopg.errors.RaiseException):
            connection.execute(statement.encode())


def test_service_role_inserts_into_the_outbox_alone(roles_url: str) -> None:
    refused(
        as_role(roles_url, "shop"),
        "SELECT data FROM penstock_outbox",
        "DELETE FROM penstock_outbox",
        "UPDATE penstock_outbox SET data = '{}'",
        "SELECT data FROM penstock_event",
        "INSERT INTO penstock_event SELECT * FROM penstock_event",
        "SELECT digest FROM penstock_token",
        "SELECT * FROM penstock_setting",
        "CREATE TABLE mine (n integer)",
    )


def test_reader_role_examines_the_database_and_changes_nothing(roles_url: str, tmp_path: Path) -> None:
    reader = as_role(roles_url, "penstock_reader")
    report = Command(tmp_path, clean_environment())("doctor", "--database", reader, "-o", "json").json
    verdicts = {each["name"]: each["verdict"] for each in report["checks"]}
    assert (verdicts["rejected"], verdicts["access"], "tokens" in verdicts) == ("ok", "absent", False)
    with closing(open_store(reader)) as store:
        findings = store.doctor()
    with psycopg.connect(reader) as connection:
        connection.execute("SELECT count(*) FROM penstock_event")

    assert all(each.ok for each in findings)
    refused(
        reader,
        "INSERT INTO penstock_outbox (event_type, data) VALUES ('a', '{}')",
        "UPDATE penstock_event_type SET revision = 9",
        "DELETE FROM penstock_event",
        "SELECT digest FROM penstock_token",
    )


def test_reader_role_reads_a_standby_while_the_hub_finds_the_primary(
    roles_url: str, postgres_cluster: PostgresCluster, tmp_path: Path
) -> None:
    with Standby(postgres_cluster) as standby:
        both = f"127.0.0.1:{standby.port},127.0.0.1:{postgres_cluster.port}/{roles_url.rpartition('/')[2]}"
        hub_url = f"postgresql://penstock_hub@{both}?target_session_attrs=read-write"
        standby_url = standby.url(roles_url.rpartition("/")[2])
        reader = as_role(standby_url, "penstock_reader")
        options = ["--no-migrate", "--replica", reader]
        with live_hub(hub_url, options=options) as hub, closing(Remote(hub.port)) as remote, client_of(hub) as http:
            remote.create()
            assert remote.publish({"n": 0})[0] == 200
            assert remote.all() == [{"n": 0}]
            standby.catch_up()
            served = f'penstock_chunk_reads_total{{source="{reader.replace("penstock_reader@", "")}"}}'
            until(
                lambda: remote.all() == [{"n": 0}] and f"{served} 0.0" not in http.get("/metrics").text,
                "the replica serves the event",
            )
        with closing(open_store(reader)) as store:
            assert all(each.ok for each in store.doctor())

        log = tmp_path / "log"
        for option, said in (("--migrate", "read-only"), ("--no-migrate", "it is a standby")):
            hub = LiveHub(as_role(standby_url, "penstock_hub"), log=log, options=[option])
            with pytest.raises(RuntimeError, match=said):
                hub.start()
