"""Databases whose sessions do not wait for the disk by default: what the hub calls done is on disk all the same."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from penstock.cli.restored import restored
from penstock.storage import open_store
from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import live_hub
from penstock.testing.postgres import PostgresCluster, PostgresMissing
from tests.exhaustive import exhaustive
from tests.promises.scene import NAME, Remote, commit_to_outbox, rows_of, until

TABLES = ("event_type", "epoch", "partition", "event", "outbox", "rejected", "group", "position")
NOTED = "CREATE TABLE noted (what text, setting text)"
NOTE = """
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO noted VALUES (TG_OP || ' ' || TG_TABLE_NAME, current_setting('synchronous_commit'));
    RETURN NULL;
END $$
"""
NOTING = """
CREATE CONSTRAINT TRIGGER noting AFTER INSERT OR UPDATE OR DELETE ON penstock_{} DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION note()
"""
WRITES = {
    "INSERT penstock_epoch", "INSERT penstock_event_type", "INSERT penstock_partition",  # an event type is created
    "INSERT penstock_event",
    "DELETE penstock_outbox", "INSERT penstock_rejected",  # the outbox is moved
    "INSERT penstock_group", "INSERT penstock_position",  # a cursor set is kept
    "UPDATE penstock_epoch", "UPDATE penstock_event_type",  # a backup was put back
    "UPDATE penstock_partition", "DELETE penstock_position", "DELETE penstock_event_type",  # one is dropped
    "DELETE penstock_event", "DELETE penstock_partition",  # and swept away
}  # fmt: skip


@pytest.mark.parametrize(
    ("default", "raised"),
    [
        ("off", "on"),
        exhaustive("local", "on"),
        exhaustive("on", "on"),
        ("remote_write", "remote_write"),
        exhaustive("remote_apply", "remote_apply"),
    ],
)
@pytest.mark.parametrize("scope", ["DATABASE {0}", exhaustive("ROLE postgres IN DATABASE {0}")])
def test_whatever_the_hub_writes_is_committed_to_the_disk(
    postgres_url: str, scope: str, default: str, raised: str
) -> None:
    set_default(postgres_url, scope, default)
    with closing(open_store(postgres_url)) as store:
        store.migrate()
    for sql in (NOTED, NOTE, *map(NOTING.format, TABLES)):
        rows_of(postgres_url, sql)

    with live_hub(postgres_url) as hub, closing(Remote(hub.port)) as remote:
        remote.create()
        assert remote.publish({"n": 0})[0] == 200
        commit_to_outbox(postgres_url, {"n": 1}, "no event")
        assert remote.all() == [{"n": 0}, {"n": 1}]
        keep_a_cursor(remote)
        restored(postgres_url)
        drop(remote)
        until(lambda: "DELETE penstock_partition" in noted(postgres_url), "the sweeper is done")

    found = noted(postgres_url)
    assert found.pop("INSERT penstock_outbox") == {default}  # The service's own commit is its own affair.
    assert found == {write: {raised} for write in WRITES}


@pytest.fixture(scope="module")
def forgetful_cluster() -> Iterator[PostgresCluster]:
    """A cluster that writes what it does not have to write only once in ten seconds."""
    try:
        cluster = PostgresCluster(synchronous_commit="off", wal_writer_delay="10s")
    except PostgresMissing as missing:
        pytest.skip(str(missing))
    with cluster:
        yield cluster


def publish(remote: Remote) -> None:
    assert remote.publish({"n": 1})[0] == 200


def keep_a_cursor(remote: Remote) -> None:
    assert remote.ask("GET", f"{remote.path}?n=1&cursor0=_first&cursorset=mine")[0] == 200


def drop(remote: Remote) -> None:
    assert remote.ask("DELETE", f"/event-types/{NAME}")[0] == 200


def create_another(remote: Remote) -> None:
    body = json.dumps(an_event_type("another.one")).encode()
    assert remote.ask("POST", "/event-types", body)[0] == 201


def resumes(remote: Remote) -> bool:
    return remote.ask("GET", f"{remote.path}?n=1&resume=0&cursorset=mine")[0] == 200


def status_of(remote: Remote, name: str) -> int:
    return remote.ask("GET", f"/event-types/{name}")[0]


@pytest.mark.parametrize(
    ("write", "is_there"),
    [
        (publish, lambda remote: remote.all() == [{"n": 0}, {"n": 1}]),
        (keep_a_cursor, resumes),
        (create_another, lambda remote: status_of(remote, "another.one") == 200),
        (drop, lambda remote: status_of(remote, NAME) == 404),
    ],
    ids=["publish", "keep a cursor", "create", "drop"],
)
def test_what_was_answered_survives_a_crash_at_once(
    forgetful_cluster: PostgresCluster, write: Callable[[Remote], Any], is_there: Callable[[Remote], bool]
) -> None:
    url = forgetful_cluster.create_database()
    with live_hub(url) as hub, closing(Remote(hub.port)) as remote:
        remote.create()
        assert remote.publish({"n": 0})[0] == 200

        write(remote)
        forgetful_cluster.kill()
        forgetful_cluster.start()

        until(lambda: remote.ask("GET", "/event-types")[0] == 200, "the hub has found its database again")
        assert is_there(remote)


def test_what_was_read_from_the_outbox_and_what_restored_has_changed_survive_a_crash_at_once(
    forgetful_cluster: PostgresCluster,
) -> None:
    url = forgetful_cluster.create_database()
    with live_hub(url) as hub, closing(Remote(hub.port)) as remote:
        remote.create()
        assert remote.publish({"n": 0})[0] == 200
        commit_to_outbox(url, {"n": 1})
        _, cursor = remote.page("_first")  # Once a reader has seen it, it stays, however lightly it was committed.
        forgetful_cluster.kill()
        forgetful_cluster.start()

        until(lambda: remote.ask("GET", "/event-types")[0] == 200, "the hub has found its database again")
        assert remote.all() == [{"n": 0}, {"n": 1}]

        restored(url)
        forgetful_cluster.kill()
        forgetful_cluster.start()

        until(lambda: remote.ask("GET", "/event-types")[0] == 200, "the hub has found its database again")
        assert remote.ask("GET", f"{remote.path}?n=1&cursor0={cursor}")[0] == 410


def test_without_it_a_crash_would_lose_what_was_committed(forgetful_cluster: PostgresCluster) -> None:
    """It shows that these tests can fail: a session as it comes loses its last commit."""
    url = forgetful_cluster.create_database()
    with psycopg.connect(url) as connection:
        connection.execute("SET LOCAL synchronous_commit = on")
        connection.execute("CREATE TABLE kept (n integer)")
    for n in range(5):  # The server may have written meanwhile what it did not have to.
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
            connection.execute("INSERT INTO kept VALUES (%s)", (n,))
        forgetful_cluster.kill()
        forgetful_cluster.start()
        if (n,) not in rows_of(url, "SELECT n FROM kept"):
            return
    raise AssertionError("nothing was ever lost: the tests above show nothing")


def set_default(url: str, scope: str, setting: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        named = scope.format(url.rpartition("/")[2])
        connection.execute(f"ALTER {named} SET synchronous_commit = {setting}".encode())


def noted(url: str) -> dict[str, set[str]]:
    """By what was written: under which settings that was committed."""
    found: dict[str, set[str]] = {}
    for what, setting in rows_of(url, "SELECT DISTINCT what, setting FROM noted"):
        found.setdefault(what, set()).add(setting)
    return found
