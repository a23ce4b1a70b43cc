"""The hub or its database goes down in the middle of a batch: the batch is stored once in the end."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from penstock.client import PublishResult
from penstock.storage.sqlite import connection
from penstock.testing.live_hub import LiveHub
from penstock.testing.postgres import PostgresCluster
from tests.exhaustive import exhaustive
from tests.faults.either import Handle, Kind
from tests.faults.proxy import Held, hung_up
from tests.faults.scene import MANY_ATTEMPTS, Scene, hub_here, ids, scene_on, stored
from tests.promises.scene import until, waiting_for_locks
from tests.store_contract import database_at

EVENTS = "SELECT count(*) FROM penstock_event WHERE partition_id IN ({mine})"
PRODUCERS = "SELECT {} FROM penstock_producer WHERE partition_id IN ({{mine}})"
BATCHES = f"SELECT count(*) FROM penstock_produced WHERE producer_id IN ({PRODUCERS.format('id')})"


@contextmanager
def lock_of(scene: Scene) -> Iterator[Any]:
    """Hold what the hub needs to commit, as a service: SQLite's file, or the head of the partition."""
    with closing(database_at(scene.database).connect()) as service:
        if scene.database.startswith("sqlite"):
            service.execute("BEGIN IMMEDIATE")
        else:
            service.execute(
                "SELECT p.id FROM penstock_partition p JOIN penstock_event_type t ON t.id = p.event_type_id "
                "WHERE t.name = %s FOR UPDATE OF p",
                [scene.name],
            )
        yield service
        service.rollback()


def begin_second(scene: Scene, mine: Handle) -> "Future[PublishResult]":
    """Send the second batch, and wait until it has come to the hub, and waits there where that can be seen."""
    sending = mine.begin(ids(2, 3), partition=0)
    until(lambda: len(scene.line.batches) == 2, "the batch is on its way")
    if scene.database.startswith("postgres"):
        until(lambda: waiting_for_locks(scene.database), "the batch waits for the head")
    assert not sending.done()
    return sending


def assert_stored_once(
    scene: Scene, result: PublishResult, *, attempts: int | None = None, duplicate: bool = False
) -> None:
    """Assert that the second batch is stored once, behind the first, after two attempts or more."""
    assert result == stored(1, (1, 2), duplicate=duplicate, attempts=attempts or result.attempts)
    assert result.attempts > 1
    assert scene.log() == [1, 2, 3]
    scene.assert_dense()


@pytest.fixture
def mine(scene: Scene) -> Handle:
    """A producer that goes on trying, and has stored one batch."""
    mine = scene.producer(retry=MANY_ATTEMPTS)
    mine.send(ids(1), partition=0)
    return mine


on_mortal = pytest.mark.parametrize(
    "hub", ["mortal_sqlite", "mortal_postgres"], indirect=True, ids=["sqlite", "postgres"]
)
on_postgres = pytest.mark.parametrize("hub", ["postgres_hub"], indirect=True)


@pytest.fixture
def hub(request: pytest.FixtureRequest) -> LiveHub:
    found: LiveHub = request.getfixturevalue(request.param)
    return found


@on_mortal
def test_batch_is_a_duplicate_if_the_hub_is_killed_between_commit_and_answer(
    scene: Scene, mine: Handle, hub: LiveHub
) -> None:
    scene.line.does(held := Held())
    sending = mine.begin(ids(2, 3), partition=0)
    held.wait()
    assert scene.rows(EVENTS) == [(3,)], "it is committed"
    hub.kill()
    hub.start()
    held.let_go(hung_up)

    assert_stored_once(scene, sending.result(300), attempts=2, duplicate=True)
    assert mine.send(ids(4), partition=0) == stored(3, (3, 3))


@on_mortal
def test_batch_is_stored_by_a_retry_if_the_hub_is_killed_before_commit(
    scene: Scene, mine: Handle, hub: LiveHub
) -> None:
    with lock_of(scene):
        sending = begin_second(scene, mine)
        hub.kill()
    assert (scene.rows(EVENTS), scene.rows(BATCHES)) == ([(1,)], [(1,)]), "nothing of it is left behind"
    hub.start()

    assert_stored_once(scene, sending.result(300))


@pytest.mark.parametrize("hub", ["mortal_sqlite"], indirect=True)
def test_claim_is_granted_to_a_retry_if_the_hub_is_killed_before_commit(scene: Scene, hub: LiveHub) -> None:
    mine = scene.producer(retry=MANY_ATTEMPTS)
    with lock_of(scene):
        sending = mine.begin(ids(1), partition=0)
        until(lambda: [each.method for each in scene.line.asked].count("PUT") == 1, "the claim is on its way")
        hub.kill()
    assert scene.rows(PRODUCERS.format("count(*)")) == [(0,)]
    hub.start()

    assert sending.result(300) == stored(0, (0, 0))

    assert scene.log() == [1]


@on_postgres
def test_batch_is_stored_by_a_retry_if_its_backend_is_killed(scene: Scene, mine: Handle) -> None:
    with lock_of(scene):
        sending = begin_second(scene, mine)
        killed = scene.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        assert killed == [(True,)]
        until(lambda: len(scene.line.batches) == 3, "it is tried again")

    assert_stored_once(scene, sending.result(300))
    assert mine.properties(0).next_sequence == 3


@on_postgres
def test_batch_is_stored_by_a_retry_after_a_deadlock(scene: Scene, mine: Handle) -> None:
    """A service takes locks of the hub's tables in the wrong order."""
    with lock_of(scene) as service:
        service.execute("SET deadlock_timeout = '1min'")
        sending = begin_second(scene, mine)
        service.execute("SELECT id FROM penstock_producer WHERE name = 'mine' FOR UPDATE")
        assert not sending.done(), "the hub was chosen to give way"

    assert_stored_once(scene, sending.result(300), attempts=2)


@on_postgres
@pytest.mark.parametrize("moment", ["", "DEFERRABLE INITIALLY DEFERRED"], ids=["statement", "commit"])
def test_batch_is_stored_by_a_retry_after_a_serialization_failure(scene: Scene, mine: Handle, moment: str) -> None:
    """The hub reads what is committed, so that only something else in the database can fail so: here a trigger."""
    with psycopg.connect(scene.database, autocommit=True) as service:
        service.execute(
            "CREATE SEQUENCE recorded;"
            "CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF nextval('recorded') = 1 THEN RAISE EXCEPTION 'could not' USING ERRCODE = '40001'; END IF;"
            "RETURN NULL; END $$;"
            "CREATE CONSTRAINT TRIGGER fail_once AFTER INSERT ON penstock_produced "
            f"{moment} FOR EACH ROW EXECUTE FUNCTION fail_once()".encode()
        )
        try:
            result = mine.send(ids(2, 3), partition=0)
            assert service.execute("SELECT last_value FROM recorded").fetchone() == (2,), "it has failed once"
        finally:
            service.execute(
                "DROP TRIGGER fail_once ON penstock_produced; DROP FUNCTION fail_once(); DROP SEQUENCE recorded"
            )

    assert_stored_once(scene, result, attempts=2)


@on_postgres
@pytest.mark.parametrize("kind", ["sync", exhaustive("async")], indirect=True)
def test_batch_is_stored_by_a_retry_after_a_restart_of_the_database(
    scene: Scene, mine: Handle, postgres_cluster: PostgresCluster
) -> None:
    postgres_cluster.kill()
    sending = mine.begin(ids(2, 3), partition=0)
    until(lambda: len(scene.line.batches) >= 3, "it is tried again")
    postgres_cluster.start()

    assert_stored_once(scene, sending.result(300))


def test_batch_is_stored_by_a_retry_if_another_writes_for_longer_than_the_hub_waits(
    sqlite_url: str, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT", 0.5)
    with hub_here(sqlite_url) as hub, scene_on(sqlite_url, hub.port, kind) as scene:
        mine = scene.producer(retry=MANY_ATTEMPTS)
        mine.send(ids(1), partition=0)
        with lock_of(scene):
            sending = mine.begin(ids(2, 3), partition=0)
            until(lambda: len(scene.line.batches) == 3, "the hub has given up, and it is tried again")

        assert_stored_once(scene, sending.result(300))
