"""Who publishes: producers that take over from each other, that begin again, and that carry on."""

import pytest

from penstock.client import Event, PartitionPublishingOptions, RetryPolicy
from penstock.errors import ClaimRefused, EpochExhausted, ProducerFenced, RetriesExhausted
from tests.faults.proxy import Held, Stuck, Visit, is_claim, lost, unanswered
from tests.faults.scene import Scene, failure_of, ids, stored

TWICE = {"retry": RetryPolicy(max_attempts=2, max_delay=0.02)}
EPOCH_MAX = 2**53 - 1


def begin_with(owner_level: int | None = None, starting_sequence: int | None = None) -> dict[str, object]:
    options = PartitionPublishingOptions(owner_level=owner_level, starting_sequence=starting_sequence)
    return {"partition_options": {0: options}}


def test_f18_epoch_taken_over_from_one_that_is_idle(wide: Scene) -> None:
    first = wide.producer()
    first.send(ids(1), partition=0)
    first.send(ids(11), partition=1)
    second = wide.producer()
    assert second.send(ids(2), partition=0) == stored(0, (1, 1), epoch=1)

    told = {"partition": 0, "current_epoch": 1, "committed": False, "outcome": "not_stored"}
    failure_of(lambda: first.send(ids(3), partition=0), ProducerFenced, **told)
    failure_of(lambda: first.send(ids(3), partition=0), ProducerFenced, **told)

    assert first.send(ids(12), partition=1) == stored(1, (1, 1), partition=1), "nobody has taken that over"
    assert (wide.log(0), wide.log(1)) == ([1, 2], [11, 12])


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "not-stored"])
def test_f18_epoch_taken_over_between_two_attempts(scene: Scene, is_stored: bool) -> None:
    """The refusal tells whether the first attempt was stored: then that batch has succeeded, and it is over."""
    first, second = scene.producer(), scene.producer()
    first.send(ids(1), partition=0)
    batch = first.batch(0, *ids(2, 3))

    def taken_over(visit: Visit) -> None:
        (unanswered if is_stored else lost)(visit)
        second.properties(0)

    scene.line.does(taken_over)

    if is_stored:
        assert first.send(batch) == stored(1, (1, 2), duplicate=True, attempts=2)
        assert list(batch.published_sequences) == [1, 2]
    else:
        failure_of(lambda: first.send(batch), ProducerFenced, committed=False, outcome="not_stored", partition=0)
        assert batch.starting_published_sequence is None

    failure_of(lambda: first.send(ids(4), partition=0), ProducerFenced, outcome="not_stored", partition=0)
    assert second.send(ids(5), partition=0).epoch == 1
    assert scene.log() == ([1, 2, 3, 5] if is_stored else [1, 5])


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "not-stored"])
def test_f18_epoch_taken_over_while_nothing_was_known(scene: Scene, is_stored: bool) -> None:
    """Whoever asks what has become of the last batch is told that, though nothing more can be published."""
    first, second = scene.producer(**TWICE), scene.producer()
    events = [Event(each) for each in ids(1, 2)]
    scene.line.does(lost, unanswered if is_stored else lost)
    failure_of(lambda: first.send(events, partition=0), RetriesExhausted, outcome="unknown")
    second.send(ids(9), partition=0)

    told = {"partition": 0, "current_epoch": 1, "committed": is_stored, "outcome": "not_stored"}
    failure_of(lambda: first.send(ids(3), partition=0), ProducerFenced, **told)

    if is_stored:
        assert first.send(events, partition=0) == stored(0, (0, 1), duplicate=True, attempts=0)
    else:
        failure_of(lambda: first.send(events, partition=0), ProducerFenced, **told)
    assert first.close().unresolved == []
    assert scene.log() == ([1, 2, 9] if is_stored else [9])


def test_f18_a_batch_that_was_found_to_be_stored_succeeds_at_once(scene: Scene) -> None:
    first, second = scene.producer(**TWICE), scene.producer()
    events = ids(1, 2)
    scene.line.does(lost, unanswered)
    failure_of(lambda: first.send(events, partition=0), RetriesExhausted, outcome="unknown")
    second.send(ids(9), partition=0)

    assert first.send(events, partition=0) == stored(0, (0, 1), duplicate=True, attempts=0)

    failure_of(lambda: first.send(ids(3), partition=0), ProducerFenced, outcome="not_stored")
    assert scene.log() == [1, 2, 9]


def test_what_was_found_to_be_stored_is_not_said_not_to_be_in_another_set_that_is_refused(scene: Scene) -> None:
    first, second = scene.producer(**TWICE), scene.producer()
    known, new = Event({"id": 1}), Event({"id": 3})
    scene.line.does(lost, unanswered)
    failure_of(lambda: first.send([known], partition=0), RetriesExhausted, outcome="unknown")
    first.send(ids(2), partition=0)  # Finds out that the first is stored, and nobody is told so.
    second.send(ids(9), partition=0)

    failure_of(lambda: first.send([known, new], partition=0), ProducerFenced, outcome="unknown")

    failure_of(lambda: first.send([new], partition=0), ProducerFenced)
    first.send([known], partition=0)
    assert scene.log() == [1, 2, 9]


def test_f19_two_producers_begin_at_the_same_time(scene: Scene) -> None:
    """The claim that is granted last wins, and each event is there once."""
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


def test_f23_two_claim_at_once_only_while_the_epoch_is_the_same(scene: Scene) -> None:
    """A producer that wants to find out what became of its batch has somebody else come before it."""
    first, second = scene.producer(**TWICE), scene.producer()
    event = Event({"id": 1})
    scene.line.does(lost, lost)
    failure_of(lambda: first.send(event, partition=0), RetriesExhausted, outcome="unknown")

    def overtaken(visit: Visit) -> None:
        second.send(ids(2), partition=0)
        visit.answer(visit.forward())

    scene.line.does(overtaken, to=is_claim)

    told = {"current_epoch": 1, "committed": False, "outcome": "not_stored"}
    failure_of(lambda: first.send(event, partition=0), ProducerFenced, **told)

    assert scene.log() == [2]
    assert second.send(ids(3), partition=0) == stored(1, (1, 1), epoch=1)


def test_f24_client_begins_again_with_nothing(scene: Scene) -> None:
    """A new instance shuts the old one out, whatever that still sends."""
    old = scene.producer(**TWICE)
    old.send(ids(1), partition=0)
    scene.line.does(stuck := Stuck(), lost)
    failure_of(lambda: old.send(ids(2), partition=0), RetriesExhausted, outcome="unknown")

    new = scene.producer()
    assert new.send(ids(3), partition=0) == stored(0, (1, 1), epoch=1)

    assert scene.raw().shown()["previous"] == {"epoch": 0, "next_sequence": 1, "last_offset": 0}
    assert stuck.deliver()[0] == 412
    failure_of(lambda: old.send(ids(4), partition=0), ProducerFenced)
    assert new.send(ids(5), partition=0) == stored(1, (2, 2), epoch=1)
    assert scene.log() == [1, 3, 5]


def test_f25_client_carries_on_where_it_was(scene: Scene) -> None:
    old = scene.producer()
    old.send(ids(1, 2), partition=0)
    at = old.properties(0)
    old.close()

    new = scene.producer(**begin_with(at.owner_level, at.next_sequence))

    assert new.properties(0) == at
    assert new.send(ids(3), partition=0) == stored(2, (2, 2))
    assert scene.log() == [1, 2, 3]


@pytest.mark.parametrize("number", [1, 0, 7], ids=["behind", "at-the-beginning", "ahead"])
def test_f26_client_carries_on_where_it_was_not(scene: Scene, number: int) -> None:
    scene.producer().send(ids(*range(6)), partition=0)
    new = scene.producer(**begin_with(0, number))

    for _ in range(2):
        told = {"partition": 0, "current_epoch": 0, "next_sequence": 6, "outcome": "not_stored"}
        failure_of(lambda: new.send(ids(9), partition=0), ClaimRefused, **told)

    assert scene.line.batches[1:] == []
    assert scene.log() == list(range(6))


def test_f33_last_epoch(scene: Scene) -> None:
    scene.raw().claims(owner_level=EPOCH_MAX)
    mine = scene.producer()

    failure_of(lambda: mine.send(ids(1), partition=0), EpochExhausted, current_epoch=EPOCH_MAX, outcome="not_stored")

    assert scene.producer(**begin_with(EPOCH_MAX, 0)).send(ids(1), partition=0) == stored(0, (0, 0), epoch=EPOCH_MAX)
    assert scene.producer(group="another").send(ids(2), partition=0) == stored(0, (1, 1))


def test_f33_last_epoch_when_it_has_to_be_left(scene: Scene) -> None:
    """Nothing can be shut out any more; the producer says so, and stores nothing twice."""
    mine = scene.producer(**begin_with(EPOCH_MAX), **TWICE)
    event = Event({"id": 1})
    scene.line.does(stuck := Stuck(), lost)
    failure_of(lambda: mine.send(event, partition=0), RetriesExhausted, outcome="unknown")

    failure_of(lambda: mine.send(event, partition=0), EpochExhausted, outcome="unknown")
    failure_of(lambda: mine.send(ids(2), partition=0), EpochExhausted, outcome="not_stored")

    assert stuck.deliver()[0] == 200
    assert mine.send(event, partition=0) == stored(0, (0, 0), epoch=EPOCH_MAX, duplicate=True, attempts=0)
    assert scene.log() == [1]


def test_f34_epochs_may_be_left_out_and_never_go_back(scene: Scene) -> None:
    assert scene.producer(**begin_with(1)).send(ids(1), partition=0) == stored(0, (0, 0), epoch=1)
    assert scene.producer(**begin_with(7)).send(ids(2), partition=0) == stored(0, (1, 1), epoch=7)

    lower = scene.producer(**begin_with(3))
    failure_of(lambda: lower.send(ids(3), partition=0), ClaimRefused, current_epoch=7, outcome="not_stored")

    assert scene.producer().send(ids(4), partition=0) == stored(0, (2, 2), epoch=8)
    assert scene.log() == [1, 2, 4]


def test_f34_an_epoch_may_begin_with_another_number_if_it_is_claimed_so(scene: Scene) -> None:
    scene.producer().send(ids(1), partition=0)
    mine = scene.producer(**begin_with(None, 40))

    assert mine.send(ids(2, 3), partition=0) == stored(40, (1, 2), epoch=1)

    scene.raw().refused(
        scene.raw().send(40, [9], epoch=2),
        409,
        "sequence-gap",
        received=40,
        expected=0,
        current_epoch=1,
        next_sequence=42,
    )
    assert mine.send(ids(4), partition=0) == stored(42, (3, 3), epoch=1)
