"""Sequence numbers begin again with 0 after the last one; this hub has 16 of them."""

from collections.abc import Iterator

import pytest

from penstock.client import Event, Resolution
from penstock.core.producers import OffsetRange
from penstock.errors import PayloadMismatch
from tests.faults.either import Handle, Kind
from tests.faults.proxy import Stuck, lost, unanswered
from tests.faults.scene import (
    MANY_ATTEMPTS,
    NOT_STORED,
    STORED,
    Scene,
    either_way,
    failure_of,
    hub_here,
    ids,
    scene_on,
    starting,
    stored,
)

MODULUS = 16


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """A hub that counts up to 15: its database and its port."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('small')}/hub.db"
    else:
        url = request.getfixturevalue("postgres_cluster").create_database()
    with hub_here(url, sequence_modulus=MODULUS) as hub:
        yield url, hub.port


@pytest.fixture
def scene(place: tuple[str, int], kind: Kind) -> Iterator[Scene]:
    with scene_on(*place, kind) as scene:
        yield scene


def test_numbers_of_a_batch_wrap_around(scene: Scene) -> None:
    mine = scene.producer(**starting(None, 14))
    batch = mine.batch(0, *ids(1, 2, 3, 4))
    scene.line.does(unanswered)

    assert mine.send(batch) == stored(14, (0, 3), duplicate=True, attempts=2)

    assert (batch.starting_published_sequence, list(batch.published_sequences)) == (14, [14, 15, 0, 1])
    properties = mine.properties(0)
    assert (properties.last_published_sequence, properties.next_sequence) == (1, 2)
    assert mine.properties(0, refresh=True) == properties
    assert mine.send(ids(5), partition=0) == stored(2, (4, 4))
    assert scene.log() == [1, 2, 3, 4, 5]


def test_repeated_batches_are_stored_once_over_several_rounds_of_numbers(scene: Scene) -> None:
    mine = scene.producer(retry=MANY_ATTEMPTS)

    for at in range(0, 33, 3):
        scene.line.does(lost, unanswered)
        result = mine.send(ids(at, at + 1, at + 2), partition=0)
        assert result == stored(at % MODULUS, (at, at + 2), duplicate=True, attempts=3)

    assert scene.log() == list(range(33))


@either_way
def test_unknown_outcome_of_a_batch_around_the_end_is_found(scene: Scene, is_stored: bool) -> None:
    mine = scene.producer(**starting(None, 14))
    mine.send(ids(1), partition=0)
    events = [Event(each) for each in ids(2, 3, 4)]
    scene.leave_in_doubt(mine, events, STORED if is_stored else NOT_STORED)

    assert mine.resolve(0) == Resolution(0, 0, 15, 3, is_stored, (OffsetRange(1, 3),) if is_stored else ())

    again = stored(15, (1, 3), duplicate=True, attempts=0)
    assert mine.send(events, partition=0) == (again if is_stored else stored(0, (1, 3), epoch=1))
    assert [event.published_sequence for event in events] == ([15, 0, 1] if is_stored else [0, 1, 2])
    assert scene.log() == [1, 2, 3, 4]


def test_copy_that_is_late_by_a_whole_round_is_stored_again(scene: Scene, mine: Handle) -> None:
    """Here the promise ends. The producer whose number the copy took is told."""
    scene.line.does(stuck := Stuck())
    for number in range(MODULUS):
        mine.send(ids(number), partition=0)

    assert stuck.deliver()[1]["outcome"] == "appended"

    failure_of(lambda: mine.send(ids(16), partition=0), PayloadMismatch, received=0, differs_at=0, outcome="not_stored")
    assert scene.log() == [*range(MODULUS), 0]
