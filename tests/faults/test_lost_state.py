"""The hub has forgotten something: events that it had acknowledged, or the producer, or the event type."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from penstock.client import Event, PartitionPublishingOptions, RetryPolicy
from penstock.errors import (
    BadParameter,
    EventTypeNotFound,
    InvalidSetting,
    ProducerStateExpired,
    RetriesExhausted,
    ServerStateRegressed,
)
from penstock.hub.expiry import Expiry
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.clock import VirtualClock
from penstock.testing.live_hub import live_hub
from tests.faults.either import Kind, either
from tests.faults.proxy import Held, Stuck, hung_up, lost
from tests.faults.scene import HubHere, Scene, failure_of, hub_here, ids, scene_on, stored
from tests.promises.scene import until
from tests.served import create

TWICE = {"retry": RetryPolicy(max_attempts=2, max_delay=0.02)}
DAY_S = 86_400


class Backup:
    """A database as it was, while no hub had it."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._path = Path(database.removeprefix("sqlite:///"))
        self._is_file = database.startswith("sqlite")
        if self._is_file:
            shutil.copy(self._path, f"{self._path}.backup")
        else:
            self._administer(f'CREATE DATABASE "{self._name}_backup" TEMPLATE "{self._name}"')

    def put_back(self) -> None:
        if self._is_file:
            for rest in self._path.parent.glob(f"{self._path.name}-*"):
                rest.unlink()
            shutil.move(f"{self._path}.backup", self._path)
        else:
            self._administer(f'DROP DATABASE "{self._name}" WITH (FORCE)')
            self._administer(f'ALTER DATABASE "{self._name}_backup" RENAME TO "{self._name}"')

    @property
    def _name(self) -> str:
        return self._database.rpartition("/")[2]

    def _administer(self, sql: str) -> None:
        with psycopg.connect(f"{self._database.rpartition('/')[0]}/postgres", autocommit=True) as connection:
            connection.execute(sql.encode())


def backed_up(hub: HubHere) -> Backup:
    hub.stop()
    backup = Backup(hub.database)
    hub.start()
    return backup


def put_back(hub: HubHere, backup: Backup) -> None:
    hub.stop()
    backup.put_back()
    hub.start()


@contextmanager
def here(database: str, kind: Kind, partitions: int = 1) -> Iterator[tuple[HubHere, Scene]]:
    with hub_here(database) as hub, scene_on(database, hub.port, kind, partitions) as scene:
        yield hub, scene


def test_f27_state_put_back_to_an_older_backup(migrated_url: str, kind: Kind) -> None:
    with here(migrated_url, kind, 2) as (hub, scene):
        mine = scene.producer()
        mine.send(ids(1, 2), partition=0)
        mine.send(ids(11), partition=1)
        backup = backed_up(hub)
        mine.send(ids(3, 4, 5), partition=0)
        put_back(hub, backup)

        told = {"partition": 0, "expected": 2, "received": 5, "missing": 3, "current_epoch": 0, "outcome": "not_stored"}
        error = failure_of(lambda: mine.send(ids(6), partition=0), ServerStateRegressed, **told)
        assert "had acknowledged 3 events" in str(error)
        failure_of(lambda: mine.send(ids(7), partition=0), ServerStateRegressed, **told)

        assert mine.send(ids(12), partition=1) == stored(1, (1, 1), partition=1), "of that nothing is lost"
        new = scene.producer()
        assert new.send(ids(3, 4, 5, 6), partition=0) == stored(0, (2, 5), epoch=1)
        assert (scene.log(0), scene.log(1)) == ([1, 2, 3, 4, 5, 6], [11, 12])


def test_f27_while_it_was_not_known_what_became_of_the_last_batch(migrated_url: str, kind: Kind) -> None:
    with here(migrated_url, kind) as (hub, scene):
        mine = scene.producer(**TWICE)
        mine.send(ids(1, 2), partition=0)
        backup = backed_up(hub)
        mine.send(ids(3), partition=0)
        scene.line.does(lost, lost)
        event = Event({"id": 4})
        failure_of(lambda: mine.send(event, partition=0), RetriesExhausted, outcome="unknown")
        put_back(hub, backup)

        told = {"expected": 2, "received": 3, "missing": 1, "outcome": "not_stored"}
        failure_of(lambda: mine.send(event, partition=0), ServerStateRegressed, **told)

        assert scene.log() == [1, 2]
        assert mine.close().unresolved == []


def test_f27_between_two_attempts(migrated_url: str, kind: Kind) -> None:
    with here(migrated_url, kind) as (hub, scene):
        mine = scene.producer()
        mine.send(ids(1, 2), partition=0)
        backup = backed_up(hub)
        mine.send(ids(3), partition=0)
        scene.line.does(held := Held())
        sending = mine.begin(ids(4), partition=0)
        held.wait()
        put_back(hub, backup)
        held.let_go(hung_up)

        told = {"expected": 2, "received": 3, "missing": 1, "outcome": "not_stored"}
        failure_of(lambda: sending.result(300), ServerStateRegressed, **told)

        assert scene.log() == [1, 2]


def test_f27_an_epoch_that_the_backup_does_not_know(migrated_url: str, kind: Kind) -> None:
    """Nothing was acknowledged in it yet: it goes on, and shuts out those before it as it did."""
    with here(migrated_url, kind) as (hub, scene):
        old = scene.producer()
        old.send(ids(1), partition=0)
        backup = backed_up(hub)
        new = scene.producer()
        assert new.properties(0).owner_level == 1
        put_back(hub, backup)

        assert new.send(ids(2), partition=0) == stored(0, (1, 1), epoch=1)

        assert scene.raw().send(1, [3]).status_code == 412
        assert scene.log() == [1, 2]


def test_f27_the_last_answer_came_from_what_is_lost(migrated_url: str, kind: Kind) -> None:
    """What was acknowledged and is lost again is told of, though all of the next batch would fit."""
    with here(migrated_url, kind) as (hub, scene):
        mine = scene.producer()
        mine.properties(0)
        backup = backed_up(hub)
        mine.send(ids(1, 2), partition=0)
        put_back(hub, backup)

        told = {"expected": 0, "received": 2, "missing": 2, "outcome": "not_stored"}
        failure_of(lambda: mine.send(ids(3), partition=0), ServerStateRegressed, **told)

        assert scene.log() == []


def test_f28_the_tail_of_the_log_is_lost_with_the_power(tmp_path: Path, kind: Kind) -> None:
    """As it could be with synchronous=NORMAL, or with a disk that says it has written and has not."""
    database, log = f"sqlite:///{tmp_path}/hub.db", tmp_path / "hub.db-wal"
    with live_hub(database, log=tmp_path / "hub.log") as hub, scene_on(database, hub.port, kind) as scene:
        mine = scene.producer()
        mine.send(ids(1, 2), partition=0)
        on_disk = log.stat().st_size
        mine.send(ids(3), partition=0)
        mine.send(ids(4), partition=0)
        hub.kill()
        assert log.stat().st_size > on_disk
        os.truncate(log, on_disk)
        hub.start()

        told = {"expected": 2, "received": 4, "missing": 2, "outcome": "not_stored"}
        failure_of(lambda: mine.send(ids(5), partition=0), ServerStateRegressed, **told)

        assert scene.log() == [1, 2]
        assert scene.producer().send(ids(3, 4, 5), partition=0) == stored(0, (2, 4), epoch=1)


def test_f29_state_forgotten_by_an_operator(scene: Scene) -> None:
    mine = scene.producer()
    mine.send(ids(1, 2), partition=0)
    assert scene.http.delete(scene.raw().path).status_code == 204

    told = {"partition": 0, "current_epoch": 0, "outcome": "not_stored"}
    failure_of(lambda: mine.send(ids(3), partition=0), ProducerStateExpired, **told)
    failure_of(lambda: mine.send(ids(3), partition=0), ProducerStateExpired, **told)

    assert scene.producer().send(ids(3), partition=0) == stored(0, (2, 2), epoch=1)
    failure_of(lambda: mine.send(ids(4), partition=0), ProducerStateExpired)
    assert scene.log() == [1, 2, 3]


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "not-stored"])
def test_f29_state_forgotten_while_nothing_was_known(scene: Scene, is_stored: bool) -> None:
    """What is stored is found as long as the events are there; then a new epoch is gone on with."""
    mine = scene.producer(**TWICE)
    mine.send(ids(1), partition=0)
    event = Event({"id": 2})
    held = Held()
    scene.line.does(*([held, lost] if is_stored else [lost, lost]))
    sending = mine.begin(event, partition=0)
    if is_stored:
        held.wait()
        held.let_go(hung_up)
    failure_of(lambda: sending.result(300), RetriesExhausted, outcome="unknown")
    assert scene.http.delete(scene.raw().path).status_code == 204

    found = mine.send(event, partition=0)

    again = stored(1, (1, 1), duplicate=True, attempts=0)
    assert found == (again if is_stored else stored(0, (1, 1), epoch=1))
    assert scene.log() == [1, 2]


def test_f29_state_expires(migrated_url: str, kind: Kind) -> None:
    clock = VirtualClock()
    with hub_here(migrated_url, clock=clock) as hub, scene_on(migrated_url, hub.port, kind) as scene:
        mine = scene.producer()
        pinned = scene.producer(group="pinned", pinned=True)
        mine.send(ids(1), partition=0)
        pinned.send(ids(2), partition=0)
        clock.advance(seconds=8 * DAY_S)
        assert hub.hub is not None
        hub.hub._sweeper.sweep()
        until(lambda: scene.raw().shown()["expired"], "it has expired")

        failure_of(lambda: mine.send(ids(3), partition=0), ProducerStateExpired, outcome="not_stored")

        assert scene.producer().send(ids(4), partition=0).epoch == 1
        assert pinned.send(ids(5), partition=0) == stored(1, (3, 3))
        assert scene.log() == [1, 2, 4, 5]


def test_f30_a_producer_that_would_be_forgotten_while_it_tries(migrated_url: str, kind: Kind) -> None:
    with hub_here(migrated_url, expiry=Expiry(idle_s=300)) as hub, scene_on(migrated_url, hub.port, kind) as scene:
        mine = scene.producer(delivery_timeout=151.0)
        error = failure_of(
            lambda: mine.send(ids(1), partition=0), BadParameter, parameter="delivery_timeout", outcome="not_stored"
        )
        assert "at most 150" in str(error)

        assert scene.log() == []
        assert scene.producer(delivery_timeout=150.0).send(ids(1), partition=0).count == 1
        assert scene.producer(group="pinned", pinned=True, delivery_timeout=1e6).send(ids(2), partition=0).count == 1


def test_f30_a_hub_that_would_forget_so_soon_does_not_start(migrated_url: str) -> None:
    store = open_store(migrated_url)
    with pytest.raises(InvalidSetting, match="240 or more, twice what a client may send a batch for"):
        Hub(store, expiry=Expiry(idle_s=239))
    store.close()


def test_f38_event_type_deleted(scene: Scene) -> None:
    mine = scene.producer()
    mine.send(ids(1), partition=0)
    scene.feed.drop()

    failure_of(lambda: mine.send(ids(2), partition=0), EventTypeNotFound, partition=0, outcome="not_stored")


def test_f38_event_type_deleted_and_created_again(scene: Scene) -> None:
    """Another producer begins anew in it; the one that was there is told that its events are gone."""
    mine, young = scene.producer(), scene.producer(group="young")
    mine.send(ids(1, 2), partition=0)
    young.properties(0)
    scene.feed.drop()
    create(scene.http, 1, scene.name)

    told = {"expected": 0, "received": 2, "missing": 2, "outcome": "not_stored"}
    failure_of(lambda: mine.send(ids(3), partition=0), ServerStateRegressed, **told)

    assert scene.log() == []
    assert young.send(ids(4), partition=0) == stored(0, (0, 0)), "it had published nothing"
    assert scene.producer().send(ids(5), partition=0) == stored(0, (1, 1))


def test_f38_deleted_and_created_again_while_nothing_was_known(scene: Scene) -> None:
    mine = scene.producer(**TWICE)
    event = Event({"id": 1})
    scene.line.does(lost, lost)
    failure_of(lambda: mine.send(event, partition=0), RetriesExhausted, outcome="unknown")
    scene.feed.drop()
    create(scene.http, 1, scene.name)

    assert mine.send(event, partition=0) == stored(0, (0, 0), epoch=1)

    assert scene.log() == [1]


@pytest.mark.parametrize("on_unknown", ["resolve", "republish"])
@pytest.mark.parametrize("starting", [0, 1000])
def test_f38_a_copy_of_before_is_shut_out(scene: Scene, on_unknown: str, starting: int) -> None:
    """What the hub has never heard of has an epoch too above which the next one lies."""
    options = {0: PartitionPublishingOptions(owner_level=4, starting_sequence=starting)}
    mine = scene.producer(**TWICE, on_unknown=on_unknown, partition_options=options)
    stuck, event = Stuck(), Event({"id": 1})
    scene.line.does(stuck, lost)
    failure_of(lambda: mine.send(event, partition=0), RetriesExhausted, outcome="unknown")
    scene.feed.drop()
    create(scene.http, 1, scene.name)

    assert mine.send(event, partition=0) == stored(0, (0, 0), epoch=5)

    assert stuck.deliver()[0] == 412
    assert scene.log() == [1]


def test_f38_partition_that_is_none(scene: Scene) -> None:
    from penstock.errors import PartitionNotFound

    mine = scene.producer()

    failure_of(lambda: mine.send(ids(1), partition=7), PartitionNotFound, partition=7, outcome="not_stored")

    assert mine.send(ids(1), partition=0) == stored(0, (0, 0))


def test_f38_hub_that_is_not_there(kind: Kind) -> None:
    from penstock.testing.port import free_port

    with either(kind, f"http://127.0.0.1:{free_port()}") as client:
        mine = client.producer("order.placed", producer_group="mine", delivery_timeout=0.3)

        told = {"partition": 0, "attempts": 0, "outcome": "not_stored"}
        error = failure_of(lambda: mine.send(ids(1), partition=0), RetriesExhausted, **told)
        assert "cannot be reached" in str(error)
