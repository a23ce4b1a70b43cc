"""Numbers begin again with 0 after the last there is: with 16 of them that can be seen."""

from collections.abc import Iterator

import pytest

from penstock.client import Event, PartitionPublishingOptions, Resolution, RetryPolicy
from penstock.core.producer import Range
from penstock.errors import PayloadMismatch, RetriesExhausted, TooManyEvents
from tests.faults.either import Kind
from tests.faults.proxy import Stuck, lost, unanswered
from tests.faults.scene import Scene, failure_of, hub_here, ids, scene_on, stored

M = 16
FROM_14 = {"partition_options": {0: PartitionPublishingOptions(starting_sequence=14)}}
TWICE = {"retry": RetryPolicy(max_attempts=2, max_delay=0.02)}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """A hub that counts up to 15, and its database."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('small')}/hub.db"
    else:
        url = request.getfixturevalue("postgres_cluster").create_database()
    with hub_here(url, sequence_modulus=M) as hub:
        yield url, hub.port


@pytest.fixture
def scene(place: tuple[str, int], kind: Kind) -> Iterator[Scene]:
    with scene_on(*place, kind) as scene:
        yield scene


def test_f31_around_the_end_within_a_batch(scene: Scene) -> None:
    mine = scene.producer(**FROM_14)
    batch = mine.batch(0, *ids(1, 2, 3, 4))
    scene.line.does(unanswered)

    assert mine.send(batch) == stored(14, (0, 3), duplicate=True, attempts=2)

    assert (batch.starting_published_sequence, list(batch.published_sequences)) == (14, [14, 15, 0, 1])
    properties = mine.properties(0)
    assert (properties.last_published_sequence, properties.next_sequence) == (1, 2)
    assert mine.properties(0, refresh=True) == properties
    assert mine.send(ids(5), partition=0) == stored(2, (4, 4))
    assert scene.log() == [1, 2, 3, 4, 5]


def test_f31_around_and_around(scene: Scene) -> None:
    mine = scene.producer()

    for turn in range(11):
        scene.line.does(lost, unanswered)
        at = 3 * turn
        assert mine.send(ids(at, at + 1, at + 2), partition=0) == stored(
            at % M, (at, at + 2), duplicate=True, attempts=3
        )

    assert scene.log() == list(range(33))


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "not-stored"])
def test_f31_what_became_of_a_batch_around_the_end(scene: Scene, is_stored: bool) -> None:
    mine = scene.producer(**FROM_14, **TWICE)
    mine.send(ids(1), partition=0)
    events = [Event(each) for each in ids(2, 3, 4)]
    scene.line.does(lost, unanswered if is_stored else lost)
    failure_of(lambda: mine.send(events, partition=0), RetriesExhausted, outcome="unknown")

    lies = (Range(1, 3),) if is_stored else ()
    assert mine.resolve(0) == Resolution(0, 0, 15, 3, is_stored, lies)

    again = stored(15, (1, 3), duplicate=True, attempts=0)
    assert mine.send(events, partition=0) == (again if is_stored else stored(0, (1, 3), epoch=1))
    assert [event.published_sequence for event in events] == ([15, 0, 1] if is_stored else [0, 1, 2])
    assert scene.log() == [1, 2, 3, 4]


def test_f31_a_batch_has_fewer_than_half_of_the_numbers(scene: Scene) -> None:
    mine = scene.producer()

    failure_of(lambda: mine.send(ids(*range(8)), partition=0), TooManyEvents, limit=7, outcome="not_stored")

    assert mine.send(ids(*range(7)), partition=0) == stored(0, (0, 6))


@pytest.mark.parametrize("later", [7, 8, 15], ids=["in-time", "too-late", "almost-a-round"])
def test_f32_a_copy_that_is_late(scene: Scene, later: int) -> None:
    """By less than half a round it is known again; then it is taken for one from ahead, and refused as well."""
    mine = scene.producer()
    scene.line.does(stuck := Stuck())
    mine.send(ids(0), partition=0)
    for number in range(1, later):
        mine.send(ids(number), partition=0)

    status, said = stuck.deliver()

    if later == 7:
        assert (status, said["outcome"], said["offsets"]) == (200, "duplicate", {"first": 0, "last": 0})
    else:
        assert (status, said["type"]) == (409, "urn:penstock:problem:sequence-gap")
    assert mine.send(ids(later), partition=0) == stored(later, (later, later))
    assert scene.log() == list(range(later + 1))


def test_f32_a_copy_that_is_late_by_a_whole_round(scene: Scene) -> None:
    """This is what ends the promise: its events are there twice. The producer whose number it took is told."""
    mine = scene.producer()
    scene.line.does(stuck := Stuck())
    for number in range(M):
        mine.send(ids(number), partition=0)

    assert stuck.deliver()[1]["outcome"] == "appended"

    failure_of(lambda: mine.send(ids(16), partition=0), PayloadMismatch, received=0, differs_at=0, outcome="not_stored")
    assert scene.log() == [*range(M), 0]


def test_f32_a_copy_of_an_epoch_that_is_over_is_never_taken(scene: Scene) -> None:
    mine = scene.producer(**TWICE)
    scene.line.does(stuck := Stuck(), lost)
    failure_of(lambda: mine.send(ids(0), partition=0), RetriesExhausted, outcome="unknown")
    for number in range(M):
        mine.send(ids(number), partition=0)

    assert stuck.deliver()[0] == 412

    assert mine.send(ids(16), partition=0) == stored(0, (16, 16), epoch=1)
    assert scene.log() == list(range(M + 1))
