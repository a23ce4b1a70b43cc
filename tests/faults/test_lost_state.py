"""The hub has lost events that it had acknowledged, or has forgotten the producer or the event type."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Event
from penstock.errors import EventTypeNotFound, ProducerStateExpired, RetriesExhausted, ServerStateRegressed
from penstock.testing.live_hub import live_hub
from tests.faults.either import Handle, Kind
from tests.faults.proxy import Held, Stuck, hung_up, lost
from tests.faults.scene import (
    NOT_STORED,
    HubHere,
    Scene,
    either_way,
    failure_of,
    hub_here,
    ids,
    scene_on,
    starting,
    stored,
)
from tests.promises.backup import Backup
from tests.served import create


def back_up(hub: HubHere) -> Backup:
    """Copy the database of a hub, which is down meanwhile."""
    hub.stop()
    backup = Backup(hub.database)
    hub.start()
    return backup


def put_back(hub: HubHere, backup: Backup) -> None:
    """Replace the database of a hub by a copy."""
    hub.stop()
    backup.put_back()
    hub.start()


@pytest.fixture
def restorable(migrated_url: str) -> Iterator[HubHere]:
    with hub_here(migrated_url) as hub:
        yield hub


@pytest.fixture
def alone(restorable: HubHere, kind: Kind) -> Iterator[Scene]:
    """A feed with two partitions in a hub whose database can be put back."""
    with scene_on(restorable.database, restorable.port, kind, 2) as scene:
        yield scene


def regression_of(call: Callable[[], Any], *, expected: int, received: int) -> ServerStateRegressed:
    """Assert that *call* fails since the hub has fewer events than it had acknowledged."""
    fields = {"partition": 0, "expected": expected, "received": received, "missing": received - expected}
    error = failure_of(call, ServerStateRegressed, outcome="not_stored", **fields)
    assert isinstance(error, ServerStateRegressed)
    return error


# An older backup


def test_producer_is_told_of_acknowledged_events_that_a_restore_has_lost(restorable: HubHere, alone: Scene) -> None:
    mine = alone.producer()
    mine.send(ids(1, 2), partition=0)
    mine.send(ids(11), partition=1)
    backup = back_up(restorable)
    mine.send(ids(3, 4, 5), partition=0)
    put_back(restorable, backup)

    for event in ids(6, 7):
        error = regression_of(lambda event=event: mine.send(event, partition=0), expected=2, received=5)  # type: ignore[misc]
        assert "has lost 3 acknowledged events" in str(error)

    assert mine.send(ids(12), partition=1) == stored(1, (1, 1), partition=1), "of that partition nothing is lost"
    assert alone.producer().send(ids(3, 4, 5, 6), partition=0) == stored(0, (2, 5), epoch=1)
    assert (alone.log(0), alone.log(1)) == ([1, 2, 3, 4, 5, 6], [11, 12])


@pytest.mark.parametrize("moment", ["between attempts", "after an unknown outcome"])
def test_producer_is_told_of_a_restore_while_its_last_batch_is_in_doubt(
    restorable: HubHere, alone: Scene, moment: str
) -> None:
    mine, event = alone.producer(), Event({"id": 4})
    mine.send(ids(1, 2), partition=0)
    backup = back_up(restorable)
    mine.send(ids(3), partition=0)

    if moment == "between attempts":
        alone.line.does(held := Held())
        sending = mine.begin(event, partition=0)
        held.wait()
        put_back(restorable, backup)
        held.let_go(hung_up)
        regression_of(lambda: sending.result(300), expected=2, received=3)
    else:
        alone.leave_in_doubt(mine, event)
        put_back(restorable, backup)
        regression_of(lambda: mine.send(event, partition=0), expected=2, received=3)

    assert alone.log() == [1, 2]
    assert mine.close().unresolved == []


def test_epoch_that_a_restore_has_lost_goes_on_if_nothing_was_acknowledged_in_it(
    restorable: HubHere, alone: Scene
) -> None:
    alone.producer().send(ids(1), partition=0)
    backup = back_up(restorable)
    new = alone.producer()
    assert new.properties(0).epoch == 1
    put_back(restorable, backup)

    assert new.send(ids(2), partition=0) == stored(0, (1, 1), epoch=1)

    assert alone.raw().send(1, [3]).status_code == 412, "it fences the epochs before it as it did"
    assert alone.log() == [1, 2]


def test_producer_is_told_of_events_that_a_power_cut_has_lost(tmp_path: Path, kind: Kind) -> None:
    """As could happen with synchronous=NORMAL, or with a disk that claims to have written and has not."""
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

        regression_of(lambda: mine.send(ids(5), partition=0), expected=2, received=4)

        assert scene.log() == [1, 2]
        assert scene.producer().send(ids(3, 4, 5), partition=0) == stored(0, (2, 4), epoch=1)


# A producer that is forgotten


def test_producer_that_an_operator_has_deleted_is_refused(scene: Scene, mine: Handle) -> None:
    mine.send(ids(1, 2), partition=0)
    assert scene.http.delete(scene.raw().path).status_code == 204

    for _ in range(2):
        told = {"partition": 0, "current_epoch": 0, "outcome": "not_stored"}
        failure_of(lambda: mine.send(ids(3), partition=0), ProducerStateExpired, **told)

    assert scene.producer().send(ids(3), partition=0) == stored(0, (2, 2), epoch=1)
    failure_of(lambda: mine.send(ids(4), partition=0), ProducerStateExpired)
    assert scene.log() == [1, 2, 3]


@either_way
def test_batch_of_unknown_outcome_is_stored_once_though_its_producer_was_deleted(
    scene: Scene, mine: Handle, is_stored: bool
) -> None:
    """A stored batch is found as long as its events are there; else the producer goes on in a new epoch."""
    mine.send(ids(1), partition=0)
    event, held = Event({"id": 2}), Held()
    scene.line.does(*([held, lost] if is_stored else NOT_STORED))
    sending = mine.begin(event, partition=0)
    if is_stored:
        held.wait()
        held.let_go(hung_up)
    failure_of(lambda: sending.result(300), RetriesExhausted, outcome="unknown")
    assert scene.http.delete(scene.raw().path).status_code == 204

    result = mine.send(event, partition=0)

    again = stored(1, (1, 1), duplicate=True, attempts=0)
    assert result == (again if is_stored else stored(0, (1, 1), epoch=1))
    assert scene.log() == [1, 2]


# An event type that is gone


def test_publish_to_a_deleted_event_type_is_refused(scene: Scene, mine: Handle) -> None:
    mine.send(ids(1), partition=0)
    scene.feed.drop()

    failure_of(lambda: mine.send(ids(2), partition=0), EventTypeNotFound, partition=0, outcome="not_stored")


def test_producer_is_told_of_events_lost_with_a_recreated_event_type(scene: Scene, mine: Handle) -> None:
    young = scene.producer(group="young")
    mine.send(ids(1, 2), partition=0)
    young.properties(0)
    scene.feed.drop()
    create(scene.http, 1, scene.name)

    regression_of(lambda: mine.send(ids(3), partition=0), expected=0, received=2)

    assert scene.log() == []
    assert young.send(ids(4), partition=0) == stored(0, (0, 0)), "it had published nothing"
    assert scene.producer().send(ids(5), partition=0) == stored(0, (1, 1))


@pytest.mark.parametrize(
    ("options", "epoch"),
    [({}, 1), (starting(4, 0), 5), (starting(4, 1000), 5), (starting(4, 1000) | {"on_unknown": "republish"}, 5)],
    ids=["default", "epoch 4", "epoch 4 from 1000", "republish"],
)
def test_copy_from_before_an_event_type_was_recreated_is_fenced(
    scene: Scene, options: dict[str, Any], epoch: int
) -> None:
    """The new event type has never heard of the producer, which takes the epoch above its own all the same."""
    mine, event = scene.producer(**options), Event({"id": 1})
    scene.leave_in_doubt(mine, event, (stuck := Stuck(), lost))
    scene.feed.drop()
    create(scene.http, 1, scene.name)

    assert mine.send(event, partition=0) == stored(0, (0, 0), epoch=epoch)

    assert stuck.deliver()[0] == 412
    assert scene.log() == [1]
