"""A write is on disk before the hub answers, also where sessions do not wait for the disk by default."""

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
def test_every_write_of_the_hub_waits_for_the_disk(postgres_url: str, scope: str, default: str, raised: str) -> None:
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
        restored(postgres_url, yes=True)
        drop(remote)
        until(lambda: "DELETE penstock_partition" in settings_of_writes(postgres_url), "the sweeper is done")

    found = settings_of_writes(postgres_url)
    assert found.pop("INSERT penstock_outbox") == {default}  # The service's own commit is its own affair.
    assert found == {write: {raised} for write in WRITES}


@pytest.fixture(scope="module")
def forgetful_cluster() -> Iterator[PostgresCluster]:
    """A cluster that writes to disk once in ten seconds unless a commit waits for it."""
    try:
        cluster = PostgresCluster(synchronous_commit="off", wal_writer_delay="10s")
    except PostgresMissing as missing:
        pytest.skip(str(missing))
    with cluster:
        yield cluster


def crash(cluster: PostgresCluster, remote: Remote) -> None:
    """Kill the server and start it again; wait until the hub has its database again."""
    cluster.kill()
    cluster.start()
    until(lambda: remote.ask("GET", "/event-types")[0] == 200, "the hub has its database again")


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
        pytest.param(publish, lambda remote: remote.all() == [{"n": 0}, {"n": 1}], id="publish"),
        pytest.param(keep_a_cursor, resumes, id="keep a cursor"),
        exhaustive(create_another, lambda remote: status_of(remote, "another.one") == 200, id="create"),
        exhaustive(drop, lambda remote: status_of(remote, NAME) == 404, id="drop"),
    ],
)
def test_answered_write_survives_a_crash_at_once(
    forgetful_cluster: PostgresCluster, write: Callable[[Remote], Any], is_there: Callable[[Remote], bool]
) -> None:
    url = forgetful_cluster.create_database()
    with live_hub(url) as hub, closing(Remote(hub.port)) as remote:
        remote.create()
        assert remote.publish({"n": 0})[0] == 200

        write(remote)
        crash(forgetful_cluster, remote)

        assert is_there(remote)


def test_read_outbox_event_and_restore_survive_a_crash_at_once(forgetful_cluster: PostgresCluster) -> None:
    url = forgetful_cluster.create_database()
    with live_hub(url) as hub, closing(Remote(hub.port)) as remote:
        remote.create()
        assert remote.publish({"n": 0})[0] == 200
        commit_to_outbox(url, {"n": 1})
        _, cursor = remote.page("_first")  # Once a reader has seen it, it stays, however lightly it was committed.
        crash(forgetful_cluster, remote)

        assert remote.all() == [{"n": 0}, {"n": 1}]

        restored(url, yes=True)
        crash(forgetful_cluster, remote)

        assert remote.ask("GET", f"{remote.path}?n=1&cursor0={cursor}")[0] == 410


@pytest.mark.exhaustive
def test_crash_loses_commits_that_do_not_wait_for_the_disk(forgetful_cluster: PostgresCluster) -> None:
    """This shows that the tests above can fail."""
    url = forgetful_cluster.create_database()
    with psycopg.connect(url) as connection:
        connection.execute("SET LOCAL synchronous_commit = on")
        connection.execute("CREATE TABLE kept (n integer)")
    for n in range(5):  # The server may have written meanwhile without having to.
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


def settings_of_writes(url: str) -> dict[str, set[str]]:
    """Return the settings under which each kind of write was committed."""
    found: dict[str, set[str]] = {}
    for what, setting in rows_of(url, "SELECT DISTINCT what, setting FROM noted"):
        found.setdefault(what, set()).add(setting)
    return found
