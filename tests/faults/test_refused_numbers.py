"""Numbers that do not fit what is stored: nothing is stored or sent again, and the partition takes no more.

No producer comes to that by itself: somebody else publishes with its group and epoch, or the test sets its number.
"""

from typing import Any, NamedTuple

import pytest

from penstock.client import Event
from penstock.core.producers import OffsetRange
from penstock.errors import OutOfSequence, PayloadMismatch, ProducerUnsafe
from tests.faults.either import Handle
from tests.faults.proxy import Stuck, lost
from tests.faults.scene import Scene, failure_of, ids, starting, stored

EPOCH_END = 2**53 - 5
"""A number close to the last one."""
OVERLAP = {"received": 0, "next_sequence": 1, "ranges": [{"first": 0, "last": 0}]}


def set_next(mine: Handle, number: int) -> None:
    """Let a producer go on with another number than the next one of partition 0."""
    mine.inner._partitions.state(0).next = number


def publish_beside(scene: Scene, mine: Handle, *batches: tuple[int, ...]) -> None:
    """Publish with the group and the epoch of *mine* as somebody else."""
    properties = mine.properties(0)
    number = properties.next_sequence
    for batch in batches:
        scene.raw().appends(number, batch, epoch=properties.epoch)
        number += len(batch)


def second_of(scene: Scene, mine: Handle) -> Handle:
    """Return another producer that goes on in the same epoch at the same number."""
    at = mine.properties(0)
    return scene.producer(**starting(at.epoch, at.next_sequence))


class Refused(NamedTuple):
    """The numbers of the first events and of those published beside; and how the next batch is refused."""

    kind: type[ProducerUnsafe]
    code: str
    fields: dict[str, Any]
    before: tuple[int, ...] = (1,)
    beside: tuple[int, ...] = (2, 3)
    next: int | None = None
    outcome: str = "not_stored"


@pytest.mark.parametrize(
    "refused",
    [
        Refused(
            OutOfSequence,
            "sequence-gap",
            {"expected": 3, "received": EPOCH_END, "current_epoch": 0},
            next=EPOCH_END,
        ),
        Refused(PayloadMismatch, "payload-mismatch", {"differs_at": 1, "received": 1, "next_sequence": 3}),
        Refused(OutOfSequence, "sequence-overlap", OVERLAP, before=(), beside=(98,), outcome="unknown"),
    ],
    ids=["gap", "other events", "the same events in part"],
)
def test_refused_number_fails_the_batch_and_all_later_ones(scene: Scene, mine: Handle, refused: Refused) -> None:
    mine.send(ids(*refused.before), partition=0)
    publish_beside(scene, mine, refused.beside)
    if refused.next is not None:
        set_next(mine, refused.next)
    told, sent = {"partition": 0} | refused.fields, len(scene.line.batches)

    first = failure_of(lambda: mine.send(ids(98, 99), partition=0), refused.kind, **told, outcome=refused.outcome)

    assert first.code == refused.code
    assert len(scene.line.batches) == sent + 1, "it is not tried again"
    asked = len(scene.line.asked)
    for _ in range(2):
        later = failure_of(lambda: mine.send(ids(100), partition=0), refused.kind, **told, outcome="not_stored")
        assert later.code == refused.code
    assert len(scene.line.asked) == asked
    assert mine.close().unresolved == []
    assert scene.log() == [*refused.before, *refused.beside]


# Two producers in one epoch


def test_of_two_producers_in_one_epoch_the_first_has_the_numbers_of_a_partition(wide: Scene) -> None:
    mine = wide.producer()
    mine.send(ids(1), partition=0)
    mine.send(ids(11), partition=1)
    theirs = second_of(wide, mine)

    assert theirs.send(ids(2), partition=0) == stored(1, (1, 1))
    failure_of(lambda: mine.send(ids(3), partition=0), PayloadMismatch, partition=0, outcome="not_stored")

    assert theirs.send(ids(4), partition=0) == stored(2, (2, 2))
    assert mine.send(ids(12), partition=1) == stored(1, (1, 1), partition=1)
    assert (wide.log(0), wide.log(1)) == ([1, 2, 4], [11, 12])


@pytest.mark.parametrize("count", [1, 2], ids=["as many", "more"])
def test_events_of_another_under_the_same_numbers_are_not_taken_for_ones_own(
    scene: Scene, mine: Handle, count: int
) -> None:
    """The producer that finds out about its batch compares events, not only numbers."""
    mine.send(ids(1), partition=0)
    theirs, event = second_of(scene, mine), Event({"id": 2})
    scene.leave_in_doubt(mine, event)
    theirs.send(ids(*range(3, 3 + count)), partition=0)

    failure_of(lambda: mine.send(event, partition=0), PayloadMismatch, partition=0, outcome="not_stored", differs_at=1)

    assert event.published_sequence is None
    assert scene.log() == [1, *range(3, 3 + count)]


def test_part_of_the_numbers_used_by_another_does_not_hide_that_a_batch_is_not_stored(
    scene: Scene, mine: Handle
) -> None:
    mine.send(ids(1), partition=0)
    theirs, events = second_of(scene, mine), [Event(each) for each in ids(2, 3)]
    scene.leave_in_doubt(mine, events)
    theirs.send(ids(9), partition=0)

    assert mine.send(events, partition=0) == stored(0, (2, 3), epoch=1)

    assert scene.log() == [1, 9, 2, 3]


def test_two_producers_in_one_epoch_store_the_same_events_once(scene: Scene, mine: Handle) -> None:
    """As two runs of one program over one file: both are told that the events are stored."""
    mine.send(ids(1), partition=0)
    theirs, event = second_of(scene, mine), Event({"id": 2})
    scene.leave_in_doubt(mine, event, (stuck := Stuck(), lost))

    assert theirs.send(ids(2), partition=0) == stored(1, (1, 1))
    assert mine.send(event, partition=0) == stored(1, (1, 1), duplicate=True, attempts=0)
    assert stuck.deliver()[1]["outcome"] == "duplicate"

    assert scene.log() == [1, 2]
    assert mine.send(ids(3), partition=0).offsets == (OffsetRange(2, 2),)
