"""Numbers that do not fit what is stored: nothing is stored, nothing is tried again, and the partition takes no more.

The client does not come to that by itself: somebody else publishes with its group and its epoch, or it is made to err.
"""

from typing import Any

import pytest

from penstock.client import Event, PartitionPublishingOptions, RetryPolicy
from penstock.core.producer import Range
from penstock.errors import (
    PayloadMismatch,
    ProducerUnsafe,
    RetriesExhausted,
    SequenceGap,
    SequenceOverlap,
    SequenceTooOld,
)
from tests.faults.either import Handle
from tests.faults.proxy import Stuck, lost, unanswered
from tests.faults.scene import Scene, failure_of, ids, stored

TWICE = {"retry": RetryPolicy(max_attempts=2, max_delay=0.02)}


def shifted(mine: Handle, number: int, partition: int = 0) -> None:
    """Let a producer go on with another number than the next one: it never does so by itself."""
    mine.inner._lanes.lane(partition).next = number


def poisoned(
    scene: Scene, mine: Handle, kind: type[ProducerUnsafe], *, outcome: str = "not_stored", **fields: Any
) -> None:
    """See that the next batch is refused so, at once, and that nothing more is even sent to the partition."""
    before = len(scene.line.batches)
    failure_of(lambda: mine.send(ids(98, 99), partition=0), kind, partition=0, outcome=outcome, **fields)
    assert len(scene.line.batches) == before + 1, "it is not tried again"
    asked = len(scene.line.asked)
    for _ in range(2):
        failure_of(lambda: mine.send(ids(100), partition=0), kind, partition=0, outcome="not_stored", **fields)
    assert len(scene.line.asked) == asked
    assert mine.close().unresolved == []


def beside(scene: Scene, mine: Handle, *batches: tuple[int, ...]) -> None:
    """Have somebody else publish with the same group and the same epoch."""
    properties = mine.properties(0)
    number = properties.next_sequence
    for batch in batches:
        scene.raw().appends(number, batch, epoch=properties.owner_level)
        number += len(batch)


def test_f13_gap(scene: Scene) -> None:
    """A number behind which there are more than were ever acknowledged to it."""
    mine = scene.producer()
    mine.send(ids(1), partition=0)
    beside(scene, mine, (2, 3))
    shifted(mine, 2**53 - 5)

    poisoned(scene, mine, SequenceGap, expected=3, received=2**53 - 5, current_epoch=0)

    assert scene.log() == [1, 2, 3]


def test_f14_same_numbers_other_payload(scene: Scene) -> None:
    mine = scene.producer()
    mine.send(ids(1), partition=0)
    beside(scene, mine, (2, 3))

    poisoned(scene, mine, PayloadMismatch, differs_at=1, received=1, next_sequence=3)

    assert scene.log() == [1, 2, 3]


def test_f16_partial_overlap(scene: Scene) -> None:
    """Somebody else has sent the beginning of the same events."""
    mine = scene.producer()
    beside(scene, mine, (98,))

    told = {"received": 0, "next_sequence": 1, "ranges": [{"first": 0, "last": 0}]}
    poisoned(scene, mine, SequenceOverlap, outcome="unknown", **told)

    assert scene.log() == [98]


def test_f17_number_of_long_ago_while_it_is_known(scene: Scene) -> None:
    mine = scene.producer()
    for number in range(20):
        mine.send(ids(number), partition=0)
    shifted(mine, 3)

    assert mine.send(ids(3, 4), partition=0) == stored(3, (3, 4), duplicate=True)

    assert scene.log() == list(range(20))


def test_f17_number_of_long_ago_when_it_is_known_no_more(scene: Scene) -> None:
    """As after retention has removed the events; the newest batches stay known."""
    mine = scene.producer()
    for number in range(5):
        mine.send(ids(number), partition=0)
    producers = "SELECT id FROM penstock_producer WHERE partition_id IN ({mine})"
    scene.rows(f"DELETE FROM penstock_produced WHERE number < 4 AND producer_id IN ({producers})")
    shifted(mine, 2)

    failure_of(lambda: mine.send(ids(2), partition=0), SequenceTooOld, partition=0, outcome="unknown", received=2)

    failure_of(lambda: mine.send(ids(9), partition=0), SequenceTooOld, partition=0, outcome="not_stored")
    assert scene.log() == [0, 1, 2, 3, 4]


def test_f15_rechunked_repeat(scene: Scene) -> None:
    """Ten events of which nothing was known come again as four and six."""
    mine = scene.producer(**TWICE)
    events = [Event({"id": number}) for number in range(10)]
    scene.line.does(unanswered, lost)
    failure_of(lambda: mine.send(events, partition=0), RetriesExhausted, outcome="unknown")

    assert mine.send(events[:4], partition=0) == stored(0, (0, 3), duplicate=True, attempts=0)
    assert mine.send(events[4:], partition=0) == stored(4, (4, 9), duplicate=True, attempts=0)

    assert scene.log() == list(range(10))


def test_f15_rechunked_repeat_of_what_was_sent_before(scene: Scene) -> None:
    """A producer that goes on from an older state sends again what is stored, in other portions."""
    mine = scene.producer()
    mine.send(ids(*range(10)), partition=0)
    shifted(mine, 0)

    assert mine.send(ids(0, 1, 2, 3), partition=0) == stored(0, (0, 3), duplicate=True)
    assert mine.send(ids(*range(4, 10)), partition=0) == stored(4, (4, 9), duplicate=True)
    assert mine.send(ids(10), partition=0) == stored(10, (10, 10))

    assert scene.log() == list(range(11))


def resumed(scene: Scene, mine: Handle) -> Handle:
    """Return a producer that goes on in the very epoch of another, which lives on."""
    at = mine.properties(0)
    options = PartitionPublishingOptions(owner_level=at.owner_level, starting_sequence=at.next_sequence)
    return scene.producer(partition_options={0: options}, **TWICE)


def test_f20_two_producers_with_one_epoch(wide: Scene) -> None:
    """Whoever is first has the numbers, the other is told; other partitions are not concerned."""
    mine = wide.producer()
    mine.send(ids(1), partition=0)
    mine.send(ids(11), partition=1)
    theirs = resumed(wide, mine)

    assert theirs.send(ids(2), partition=0) == stored(1, (1, 1))
    failure_of(lambda: mine.send(ids(3), partition=0), PayloadMismatch, partition=0, outcome="not_stored")

    assert theirs.send(ids(4), partition=0) == stored(2, (2, 2))
    assert mine.send(ids(12), partition=1) == stored(1, (1, 1), partition=1)
    assert (wide.log(0), wide.log(1)) == ([1, 2, 4], [11, 12])


@pytest.mark.parametrize("count", [1, 2], ids=["as-many", "more"])
def test_f20_what_another_has_stored_under_the_same_numbers_is_not_ones_own(scene: Scene, count: int) -> None:
    """Numbers alone do not tell what has become of a batch: where another has the same, its events are compared."""
    mine = scene.producer(**TWICE)
    mine.send(ids(1), partition=0)
    theirs = resumed(scene, mine)
    event = Event({"id": 2})
    scene.line.does(lost, lost)
    failure_of(lambda: mine.send(event, partition=0), RetriesExhausted, outcome="unknown")
    theirs.send(ids(*range(3, 3 + count)), partition=0)

    failure_of(lambda: mine.send(event, partition=0), PayloadMismatch, partition=0, outcome="not_stored", differs_at=1)

    assert event.published_sequence is None
    assert scene.log() == [1, *range(3, 3 + count)]


def test_f20_nor_in_an_epoch_that_is_over(scene: Scene) -> None:
    mine = scene.producer(**TWICE)
    mine.send(ids(1), partition=0)
    theirs = resumed(scene, mine)
    events = [Event(each) for each in ids(2, 3)]
    scene.line.does(lost, lost)
    failure_of(lambda: mine.send(events, partition=0), RetriesExhausted, outcome="unknown")
    theirs.send(ids(9), partition=0)

    assert mine.send(events, partition=0) == stored(0, (2, 3), epoch=1)

    assert scene.log() == [1, 9, 2, 3]


def test_f20_two_producers_with_one_epoch_and_the_same_events(scene: Scene) -> None:
    """As two runs of one program over one file: each event is there once, and both are told so."""
    mine = scene.producer(**TWICE)
    mine.send(ids(1), partition=0)
    theirs = resumed(scene, mine)
    scene.line.does(stuck := Stuck(), lost)
    event = Event({"id": 2})
    failure_of(lambda: mine.send(event, partition=0), RetriesExhausted, outcome="unknown")

    assert theirs.send(ids(2), partition=0) == stored(1, (1, 1))
    assert mine.send(event, partition=0) == stored(1, (1, 1), duplicate=True, attempts=0)
    assert stuck.deliver()[1]["outcome"] == "duplicate"

    assert scene.log() == [1, 2]
    assert mine.send(ids(3), partition=0).offsets == (Range(2, 2),)
