"""Producers of one group that take over from each other, begin again, or carry on."""

import pytest

from penstock.client import Event
from penstock.errors import ClaimRefused, EpochExhausted, ProducerFenced
from tests.faults.either import Handle
from tests.faults.proxy import Held, Stuck, Visit, is_claim, lost
from tests.faults.scene import NOT_STORED, STORED, Scene, either_way, failure_of, ids, starting, stored

EPOCH_MAX = 2**53 - 1


# A producer that another takes over from


def test_idle_producer_is_fenced_after_a_takeover_in_that_partition_only(wide: Scene) -> None:
    first = wide.producer()
    first.send(ids(1), partition=0)
    first.send(ids(11), partition=1)
    second = wide.producer()
    assert second.send(ids(2), partition=0) == stored(0, (1, 1), epoch=1)

    for _ in range(2):
        told = {"partition": 0, "current_epoch": 1, "committed": False, "outcome": "not_stored"}
        failure_of(lambda: first.send(ids(3), partition=0), ProducerFenced, **told)

    assert first.send(ids(12), partition=1) == stored(1, (1, 1), partition=1)
    assert (wide.log(0), wide.log(1)) == ([1, 2], [11, 12])


@either_way
def test_takeover_between_attempts_fails_the_call_unless_the_first_attempt_stored_it(
    scene: Scene, is_stored: bool
) -> None:
    first, second = scene.producer(), scene.producer()
    first.send(ids(1), partition=0)
    batch = first.batch(0, *ids(2, 3))

    def take_over(visit: Visit) -> None:
        visit.forward() if is_stored else visit.body()
        second.properties(0)
        visit.hang_up()

    scene.line.does(take_over)

    if is_stored:
        assert first.send(batch) == stored(1, (1, 2), duplicate=True, attempts=2)
    else:
        failure_of(lambda: first.send(batch), ProducerFenced, committed=False, outcome="not_stored", partition=0)
    assert list(batch.published_sequences) == ([1, 2] if is_stored else [])

    failure_of(lambda: first.send(ids(4), partition=0), ProducerFenced, outcome="not_stored", partition=0)
    assert second.send(ids(5), partition=0).epoch == 1
    assert scene.log() == ([1, 2, 3, 5] if is_stored else [1, 5])


@either_way
def test_fenced_producer_still_finds_its_batch_of_unknown_outcome(scene: Scene, is_stored: bool) -> None:
    first, second = scene.producer(), scene.producer()
    events = [Event(each) for each in ids(1, 2)]
    scene.leave_in_doubt(first, events, STORED if is_stored else NOT_STORED)
    second.send(ids(9), partition=0)

    told = {"partition": 0, "current_epoch": 1, "committed": is_stored, "outcome": "not_stored"}
    failure_of(lambda: first.send(ids(3), partition=0), ProducerFenced, **told)

    if is_stored:
        assert first.send(events, partition=0) == stored(0, (0, 1), duplicate=True, attempts=0)
    else:
        failure_of(lambda: first.send(events, partition=0), ProducerFenced, **told)
    assert first.close().unresolved == []
    assert scene.log() == ([1, 2, 9] if is_stored else [9])


def test_stored_batch_of_unknown_outcome_succeeds_at_once_after_a_takeover(scene: Scene) -> None:
    first, second = scene.producer(), scene.producer()
    events = ids(1, 2)
    scene.leave_in_doubt(first, events, STORED)
    second.send(ids(9), partition=0)

    assert first.send(events, partition=0) == stored(0, (0, 1), duplicate=True, attempts=0)

    failure_of(lambda: first.send(ids(3), partition=0), ProducerFenced, outcome="not_stored")
    assert scene.log() == [1, 2, 9]


# Two claims at once


def test_of_two_producers_that_begin_at_once_the_last_claim_wins(scene: Scene) -> None:
    one, other = scene.producer(), scene.producer()
    scene.line.does(first := Held(), second := Held(), to=is_claim)
    sending = {"one": one.begin(ids(1), partition=0)}
    first.wait()
    sending["other"] = other.begin(ids(2), partition=0)
    second.wait()
    first.let_go()

    failure_of(lambda: sending["one"].result(300), ProducerFenced, current_epoch=1, outcome="not_stored")
    second.let_go()

    assert sending["other"].result(300) == stored(0, (0, 0), epoch=1)
    assert scene.log() == [2]


# A client that begins again


def test_new_producer_without_state_fences_the_old_one_and_its_late_batches(scene: Scene) -> None:
    old = scene.producer()
    old.send(ids(1), partition=0)
    scene.leave_in_doubt(old, ids(2), (stuck := Stuck(), lost))

    new = scene.producer()
    assert new.send(ids(3), partition=0) == stored(0, (1, 1), epoch=1)

    assert scene.raw().shown()["previous"] == {"epoch": 0, "next_sequence": 1, "last_offset": 0}
    assert stuck.deliver()[0] == 412
    failure_of(lambda: old.send(ids(4), partition=0), ProducerFenced)
    assert new.send(ids(5), partition=0) == stored(1, (2, 2), epoch=1)
    assert scene.log() == [1, 3, 5]


def test_new_producer_with_the_old_state_carries_on_in_its_epoch(scene: Scene) -> None:
    old = scene.producer()
    old.send(ids(1, 2), partition=0)
    at = old.properties(0)
    old.close()

    new = scene.producer(**starting(at.epoch, at.next_sequence))

    assert new.properties(0) == at
    assert new.send(ids(3), partition=0) == stored(2, (2, 2))
    assert scene.log() == [1, 2, 3]


@pytest.mark.parametrize("number", [1, 0, 7], ids=["behind", "at the beginning", "ahead"])
def test_new_producer_with_a_wrong_number_is_refused(scene: Scene, number: int) -> None:
    scene.producer().send(ids(*range(6)), partition=0)
    new = scene.producer(**starting(0, number))

    for _ in range(2):
        told = {"partition": 0, "current_epoch": 0, "next_sequence": 6, "outcome": "not_stored"}
        failure_of(lambda: new.send(ids(9), partition=0), ClaimRefused, **told)

    assert scene.line.batches[1:] == []
    assert scene.log() == list(range(6))


# Which epochs there are


def test_last_epoch_cannot_be_taken_over(scene: Scene, mine: Handle) -> None:
    scene.raw().claims(epoch=EPOCH_MAX)

    failure_of(lambda: mine.send(ids(1), partition=0), EpochExhausted, current_epoch=EPOCH_MAX, outcome="not_stored")

    assert scene.producer(**starting(EPOCH_MAX, 0)).send(ids(1), partition=0) == stored(0, (0, 0), epoch=EPOCH_MAX)
    assert scene.producer(group="another").send(ids(2), partition=0) == stored(0, (1, 1))


def test_unknown_outcome_in_the_last_epoch_stays_unknown_until_the_batch_is_found(scene: Scene) -> None:
    """Nothing fences the batch any more; the producer says so, and stores nothing twice."""
    mine, event = scene.producer(**starting(EPOCH_MAX)), Event({"id": 1})
    scene.leave_in_doubt(mine, event, (stuck := Stuck(), lost))

    failure_of(lambda: mine.send(event, partition=0), EpochExhausted, outcome="unknown")
    failure_of(lambda: mine.send(ids(2), partition=0), EpochExhausted, outcome="not_stored")

    assert stuck.deliver()[0] == 200
    assert mine.send(event, partition=0) == stored(0, (0, 0), epoch=EPOCH_MAX, duplicate=True, attempts=0)
    assert scene.log() == [1]
