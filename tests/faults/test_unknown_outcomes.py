"""A call ends without knowing whether its batch is stored: the next call finds out before it does anything else."""

import pytest

from penstock.client import Event, Resolution
from penstock.core.producers import OffsetRange
from penstock.errors import Forbidden, MalformedEvent
from tests.faults.either import Handle
from tests.faults.proxy import (
    Fate,
    Stuck,
    Which,
    is_batch,
    is_claim,
    is_question,
    lost,
    refusing,
    unanswered,
)
from tests.faults.scene import NOT_STORED, STORED, Scene, either_way, failure_of, ids, stored

FORBIDDEN = refusing(403, "forbidden")


# The same events again


@either_way
def test_repeated_batch_of_unknown_outcome_is_stored_once(scene: Scene, mine: Handle, is_stored: bool) -> None:
    """Where it was not stored, it is in the next epoch: nothing of the epoch before can be stored any more."""
    mine.send(ids(1), partition=0)
    batch = mine.batch(0, *ids(2, 3))
    scene.leave_in_doubt(mine, batch, STORED if is_stored else NOT_STORED, partition=None)
    assert (batch.starting_published_sequence, list(batch.published_sequences)) == (None, [])

    first, epoch = (1, 0) if is_stored else (0, 1)
    result = mine.send(batch)

    assert result == stored(first, (1, 2), epoch=epoch, duplicate=is_stored, attempts=0 if is_stored else 1)
    assert (batch.starting_published_sequence, list(batch.published_sequences)) == (first, [first, first + 1])
    assert mine.send(ids(4), partition=0) == stored(first + 2, (3, 3), epoch=epoch)
    assert scene.log() == [1, 2, 3, 4]


def test_plain_events_of_unknown_outcome_are_recognised_by_identity(scene: Scene, mine: Handle) -> None:
    """They may come back in any sets, until their sender was told that they are stored."""
    events = ids(1, 2, 3, 4)
    scene.leave_in_doubt(mine, events[:3], STORED)

    assert mine.send(ids(5), partition=0) == stored(3, (3, 3))
    assert mine.send(events[:2], partition=0) == stored(0, (0, 1), duplicate=True, attempts=0)
    assert mine.send(events[2:], partition=0) == stored(2, (2, 2), (4, 4))

    assert scene.log() == [1, 2, 3, 5, 4]
    assert mine.send(events[:1], partition=0) == stored(5, (5, 5)), "it was told to be stored: this is another event"


def test_batch_of_unknown_outcome_can_be_added_to(scene: Scene, mine: Handle) -> None:
    batch = mine.batch(0, *ids(1, 2))
    scene.leave_in_doubt(mine, batch, STORED, partition=None)
    assert batch.try_add({"id": 3})

    assert mine.send(batch) == stored(0, (0, 2))

    assert (batch.starting_published_sequence, list(batch.published_sequences)) == (0, [0, 1, 2])


def test_events_of_unknown_outcome_are_stored_once_in_other_sets(scene: Scene, mine: Handle) -> None:
    first, second, third, fourth = events = [Event(each) for each in ids(1, 2, 3, 4)]
    scene.leave_in_doubt(mine, events[:3], STORED)

    assert mine.send([fourth, second], partition=0) == stored(3, (3, 3), (1, 1))
    assert mine.send([third], partition=0) == stored(2, (2, 2), duplicate=True, attempts=0)
    assert mine.send([first], partition=0) == stored(0, (0, 0), duplicate=True, attempts=0)

    assert [(each.published_sequence, each.published_offset) for each in events] == [(n, n) for n in range(4)]
    assert scene.log() == [1, 2, 3, 4]


def test_refused_set_with_a_stored_event_has_an_unknown_outcome(scene: Scene, mine: Handle) -> None:
    """If the producer said that nothing of it is stored, its caller would publish that event a second time."""
    known, new = Event({"id": 1}), Event({"id": 2})
    scene.leave_in_doubt(mine, known, STORED)
    mine.resolve(0)
    for events, outcome in (([known, new], "unknown"), ([new], "not_stored")):
        scene.line.does(FORBIDDEN)
        failure_of(lambda events=events: mine.send(events, partition=0), Forbidden, outcome=outcome)  # type: ignore[misc]

    malformed = {"line": 2, "outcome": "unknown"}  # Of the two that were handed in, one is sent.
    failure_of(lambda: mine.send([known, "x"], partition=0), MalformedEvent, **malformed)

    assert mine.send([known, new], partition=0) == stored(0, (0, 1))
    assert scene.log() == [1, 2]


# Other events, or none


@either_way
def test_next_call_with_other_events_resolves_the_unknown_outcome(scene: Scene, is_stored: bool) -> None:
    told: list[Resolution] = []
    mine = scene.producer(on_resolution=told.append)
    scene.leave_in_doubt(mine, ids(1, 2), STORED if is_stored else NOT_STORED)

    assert mine.send(ids(3), partition=0) == (stored(2, (2, 2)) if is_stored else stored(0, (0, 0), epoch=1))

    assert told == [Resolution(0, 0, 0, 2, is_stored, (OffsetRange(0, 1),) if is_stored else ())]
    assert scene.log() == ([1, 2, 3] if is_stored else [3])


@either_way
def test_resolve_finds_the_unknown_outcome_once(scene: Scene, mine: Handle, is_stored: bool) -> None:
    assert mine.resolve(0) is None
    scene.leave_in_doubt(mine, ids(1, 2), STORED if is_stored else NOT_STORED)

    assert mine.resolve(0) == Resolution(0, 0, 0, 2, is_stored, (OffsetRange(0, 1),) if is_stored else ())

    assert mine.resolve(0) is None
    assert mine.properties(0).epoch == (0 if is_stored else 1)


def test_close_reports_partitions_of_unknown_outcome(wide: Scene) -> None:
    mine = wide.producer()
    wide.leave_in_doubt(mine, ids(1), partition=2)
    mine.send(ids(2), partition=3)

    report = mine.close()

    assert (report.unresolved, report.unfinished) == ([2], [])


# Copies that come late


def test_republishing_stores_a_batch_twice_if_the_first_copy_was_stored(scene: Scene) -> None:
    """With `on_unknown="republish"` the producer only makes sure that no first copy comes later."""
    mine = scene.producer(on_unknown="republish")
    events = [Event(each) for each in ids(1, 2)]
    scene.leave_in_doubt(mine, events, STORED)

    assert mine.send(events, partition=0) == stored(0, (2, 3), epoch=1)

    assert scene.log() == [1, 2, 1, 2]
    assert scene.raw().found(0, epoch=0, count=2)["stored"] is True


@pytest.mark.parametrize("on_unknown", ["resolve", "republish"])
def test_copy_that_comes_after_the_repeat_is_fenced(scene: Scene, on_unknown: str) -> None:
    mine = scene.producer(on_unknown=on_unknown)
    events = [Event(each) for each in ids(1, 2)]
    scene.leave_in_doubt(mine, events, (stuck := Stuck(), lost))
    assert mine.send(events, partition=0) == stored(0, (0, 1), epoch=1)

    status, said = stuck.deliver()

    assert (status, said["type"], said["committed"]) == (412, "urn:penstock:problem:producer-fenced", False)
    assert mine.send(ids(3), partition=0) == stored(2, (2, 2), epoch=1)
    assert scene.log() == [1, 2, 3]


# Faults while the producer finds out


@either_way
@pytest.mark.parametrize("which", [is_question, is_claim, is_batch], ids=["question", "claim", "repeat"])
def test_unanswered_request_while_resolving_is_repeated(
    scene: Scene, mine: Handle, which: Which, is_stored: bool
) -> None:
    events = ids(1, 2)
    scene.leave_in_doubt(mine, events, STORED if is_stored else NOT_STORED)
    scene.line.does(unanswered, to=which)

    result = mine.send(events, partition=0)

    again = stored(0, (0, 1), duplicate=True, attempts=0)
    assert result == (again if is_stored else stored(0, (0, 1), epoch=1))
    assert scene.log() == [1, 2]


@pytest.mark.parametrize(
    ("which", "fates"),
    [
        (is_question, STORED),
        (is_question, NOT_STORED),
        (is_claim, NOT_STORED),
        (is_batch, STORED),
        (is_batch, NOT_STORED),
    ],
    ids=["question, stored", "question, not stored", "claim, not stored", "repeat, stored", "repeat, not stored"],
)
def test_refused_request_while_resolving_leaves_it_to_the_next_call(
    scene: Scene, mine: Handle, which: Which, fates: tuple[Fate, ...]
) -> None:
    events = [Event(each) for each in ids(1, 2)]
    scene.leave_in_doubt(mine, events, fates)
    scene.line.does(FORBIDDEN, to=which)

    failure_of(lambda: mine.send(ids(3), partition=0), Forbidden, partition=0, outcome="not_stored")
    mine.send(events, partition=0)

    assert scene.log() == [1, 2]
    assert [each.published_offset for each in events] == [0, 1]
