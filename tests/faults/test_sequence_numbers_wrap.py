"""Sequence numbers begin again with 0 after the last one; this hub has 16 of them."""

from collections.abc import Iterator

import pytest

from tests.faults.either import Kind
from tests.faults.proxy import lost, unanswered
from tests.faults.scene import (
    MANY_ATTEMPTS,
    Scene,
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
