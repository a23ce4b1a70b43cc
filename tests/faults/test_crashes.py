"""The hub, or its database, goes down in the middle of a batch: it is stored once, or not at all."""

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
from penstock.testing.store_contract import database_at
from tests.faults.either import Kind
from tests.faults.proxy import Held, hung_up
from tests.faults.scene import Scene, hub_here, ids, scene_on, stored
from tests.promises.scene import until, waiting_for_locks

EVENTS = "SELECT count(*) FROM penstock_event WHERE partition_id IN ({mine})"
BATCHES = (
    "SELECT count(*) FROM penstock_produced "
    "WHERE producer_id IN (SELECT id FROM penstock_producer WHERE partition_id IN ({mine}))"
)


@contextmanager
def holding(scene: Scene) -> Iterator[None]:
    """Have a service hold what the hub needs to commit: SQLite's file, or the head of the partition."""
    with closing(database_at(scene.database).connect()) as service:
        if scene.database.startswith("sqlite"):
            service.execute("BEGIN IMMEDIATE")
        else:
            lock_head(service, scene)
        yield
        service.rollback()


def lock_head(service: Any, scene: Scene) -> None:
    service.execute(
        "SELECT p.id FROM penstock_partition p JOIN penstock_event_type t ON t.id = p.event_type_id "
        "WHERE t.name = %s FOR UPDATE OF p",
        [scene.name],
    )


def under_way(scene: Scene, sending: "Future[PublishResult]", count: int) -> None:
    """Wait until a batch has come to the hub, and waits there where that can be seen."""
    until(lambda: len(scene.line.batches) == count, "the batch is on its way")
    if scene.database.startswith("postgres"):
        until(lambda: waiting_for_locks(scene.database), "the batch waits for the head")
    assert not sending.done()


def test_f03_hub_killed_after_commit_and_before_its_reply(mortal: LiveHub, kind: Kind) -> None:
    with scene_on(mortal.database, mortal.port, kind) as scene:
        mine = scene.producer()
        mine.send(ids(1), partition=0)
        scene.line.does(held := Held())
        sending = mine.begin(ids(2, 3), partition=0)
        held.wait()
        assert scene.rows(EVENTS) == [(3,)], "it is committed"
        mortal.kill()
        mortal.start()
        held.let_go(hung_up)

        assert sending.result(300) == stored(1, (1, 2), duplicate=True, attempts=2)

        assert scene.log() == [1, 2, 3]
        assert mine.send(ids(4), partition=0) == stored(3, (3, 3))
        scene.dense()


def test_f04_hub_killed_before_commit(mortal: LiveHub, kind: Kind) -> None:
    with scene_on(mortal.database, mortal.port, kind) as scene:
        mine = scene.producer()
        mine.send(ids(1), partition=0)
        with holding(scene):
            sending = mine.begin(ids(2, 3), partition=0)
            under_way(scene, sending, 2)
            mortal.kill()
        assert (scene.rows(EVENTS), scene.rows(BATCHES)) == ([(1,)], [(1,)]), "nothing of it is left behind"
        mortal.start()

        result = sending.result(300)

        assert result == stored(1, (1, 2), attempts=result.attempts)
        assert result.attempts > 1
        assert scene.log() == [1, 2, 3]
        scene.dense()


def test_f04_hub_killed_before_the_first_claim_is_committed(mortal_sqlite: LiveHub, kind: Kind) -> None:
    mortal = mortal_sqlite
    with scene_on(mortal.database, mortal.port, kind) as scene:
        mine = scene.producer()
        with holding(scene):
            sending = mine.begin(ids(1), partition=0)
            until(lambda: [each.method for each in scene.line.asked].count("PUT") == 1, "the claim is on its way")
            mortal.kill()
        assert scene.rows("SELECT count(*) FROM penstock_producer WHERE partition_id IN ({mine})") == [(0,)]
        mortal.start()

        assert sending.result(300) == stored(0, (0, 0))

        assert scene.log() == [1]


@pytest.fixture
def postgres_scene(postgres_hub: LiveHub, kind: Kind) -> Iterator[Scene]:
    with scene_on(postgres_hub.database, postgres_hub.port, kind) as scene:
        yield scene


def test_f41_backend_killed_in_the_middle_of_the_transaction(postgres_scene: Scene) -> None:
    scene = postgres_scene
    mine = scene.producer()
    mine.send(ids(1), partition=0)
    with holding(scene):
        sending = mine.begin(ids(2, 3), partition=0)
        under_way(scene, sending, 2)
        killed = scene.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        assert killed == [(True,)]
        until(lambda: len(scene.line.batches) == 3, "it is tried again")

    assert sending.result(300).attempts >= 2
    assert scene.log() == [1, 2, 3]
    assert mine.properties(0).next_sequence == 3
    scene.dense()


def test_f41_deadlock(postgres_scene: Scene) -> None:
    """A service that locks what it should not, in the order that it should not."""
    scene = postgres_scene
    mine = scene.producer()
    mine.send(ids(1), partition=0)
    with closing(psycopg.connect(scene.database)) as service:
        service.execute("SET deadlock_timeout = '1min'")
        lock_head(service, scene)
        sending = mine.begin(ids(2, 3), partition=0)
        under_way(scene, sending, 2)
        service.execute("SELECT id FROM penstock_producer WHERE name = 'mine' FOR UPDATE")
        assert not sending.done(), "the hub was chosen to give way"

    assert sending.result(300) == stored(1, (1, 2), attempts=2)
    assert scene.log() == [1, 2, 3]
    scene.dense()


@pytest.mark.parametrize("moment", ["at a statement", "at the commit"])
def test_f41_serialization_failure(postgres_scene: Scene, moment: str) -> None:
    """The hub reads what is committed, where the database finds nothing to serialize; something else in it may."""
    scene = postgres_scene
    mine = scene.producer()
    mine.send(ids(1), partition=0)
    with failing_once(scene, "40001", deferred=moment == "at the commit"):
        result = mine.send(ids(2, 3), partition=0)

    assert result == stored(1, (1, 2), attempts=2)
    assert scene.log() == [1, 2, 3]
    scene.dense()


@contextmanager
def failing_once(scene: Scene, sqlstate: str, *, deferred: bool) -> Iterator[None]:
    """Let the next batch that is recorded fail with that error, there or when its transaction is committed."""
    when = "DEFERRABLE INITIALLY DEFERRED" if deferred else ""
    with psycopg.connect(scene.database, autocommit=True) as service:
        service.execute(
            "CREATE SEQUENCE recorded;"
            "CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF nextval('recorded') = 1 THEN RAISE EXCEPTION 'could not' USING ERRCODE = '{sqlstate}'; END IF;"
            "RETURN NULL; END $$;"
            "CREATE CONSTRAINT TRIGGER fail_once AFTER INSERT ON penstock_produced "
            f"{when} FOR EACH ROW EXECUTE FUNCTION fail_once()"
        )
        try:
            yield
            assert service.execute("SELECT last_value FROM recorded").fetchone() == (2,), "it has failed once"
        finally:
            service.execute(
                "DROP TRIGGER fail_once ON penstock_produced; DROP FUNCTION fail_once(); DROP SEQUENCE recorded"
            )


def test_f41_database_restarted(postgres_scene: Scene, postgres_cluster: PostgresCluster) -> None:
    scene = postgres_scene
    mine = scene.producer()
    mine.send(ids(1), partition=0)
    postgres_cluster.kill()
    sending = mine.begin(ids(2, 3), partition=0)
    until(lambda: len(scene.line.batches) >= 3, "it is tried again")
    postgres_cluster.start()

    result = sending.result(300)

    assert result == stored(1, (1, 2), attempts=result.attempts)
    assert scene.log() == [1, 2, 3]
    scene.dense()


def test_f42_somebody_else_writes_for_longer_than_the_hub_waits(
    sqlite_url: str, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.5)
    with hub_here(sqlite_url) as hub, scene_on(sqlite_url, hub.port, kind) as scene:
        mine = scene.producer()
        mine.send(ids(1), partition=0)
        with holding(scene):
            sending = mine.begin(ids(2, 3), partition=0)
            until(lambda: len(scene.line.batches) == 3, "the hub has given up, and it is tried again")
        _, first, second = [each.at for each in scene.line.batches]
        assert second - first >= connection.BUSY_TIMEOUT_S

        result = sending.result(300)

        assert result == stored(1, (1, 2), attempts=result.attempts)
        assert scene.log() == [1, 2, 3]
        scene.dense()
