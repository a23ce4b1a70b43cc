"""What is known of one partition: which number is next, what is in doubt, and which events were handed in before."""

import gc

import pytest

from penstock.client.event import Event
from penstock.client.hub_protocol import HubProtocol
from penstock.client.lane import LAST_S, AbandonedError, Lane, Numbered, Operation
from penstock.client.producer_options import PartitionPublishingOptions
from penstock.core.producer import Range
from penstock.errors import PayloadMismatch, ProducerFenced
from penstock.wire.producers import Shown


def shown(epoch: int = 3, next_sequence: int = 0, modulus: int = 16) -> Shown:
    return Shown(
        producer_group="g",
        partition=2,
        owner_level=epoch,
        last_published_sequence=None,
        next_sequence=next_sequence,
        last_offset=None,
        previous=None,
        pinned=False,
        expired=False,
        updated_at="",
        expires_at=None,
        expires_after_s=0.0,
        sequence_modulus=modulus,
    )


def lane(next_sequence: int = 0) -> Lane:
    found = Lane(2, PartitionPublishingOptions())
    found.adopt(shown(next_sequence=next_sequence))
    return found


def numbered(*events: Event, first: int = 0) -> Numbered:
    return Numbered(3, first, events, b"body")


def test_each_claim_has_an_id_until_it_is_granted() -> None:
    found = Lane(2, PartitionPublishingOptions())
    first = found.claim_id

    found.adopt(shown())

    assert found.claim_id != first
    assert (found.standing, found.group, found.epoch, found.next) == ("ready", "g", 3, 0)


def test_numbers_go_on_around_the_end() -> None:
    found = lane(next_sequence=14)

    found.advance(4, [Range(5, 6), Range(9, 10)])

    assert (found.next, found.last_published, found.last_offset) == (2, 1, 10)
    publications = found.publications(numbered(*(Event({}) for _ in range(4)), first=14), [Range(5, 6), Range(9, 10)])
    assert [(each.sequence, each.offset) for each in publications] == [(14, 5), (15, 6), (0, 9), (1, 10)]


def test_one_that_is_poisoned_says_so_each_time_and_nothing_of_other_batches() -> None:
    found = lane()
    found.check()
    found.poison(PayloadMismatch(producer_group="g", partition=2, differs_at=4, outcome="unknown"))

    for _ in range(2):
        with pytest.raises(PayloadMismatch) as poisoned:
            found.check()
        assert poisoned.value.fields == {"producer_group": "g", "partition": 2, "differs_at": 4}
    assert poisoned.value is not found.error


def test_what_was_found_to_be_stored_is_known_until_it_is_told() -> None:
    found = lane()
    one, two, three = (Event({"n": number}) for number in range(3))
    found.settle(numbered(one, two), [Range(7, 8)])

    assert found.known([two, one])
    assert not found.known([one, three])
    found.tell([three, two])
    assert (two.published_offset, two.published_sequence, three.published_offset) == (8, 1, None)
    assert not found.known([two])
    assert found.known([one]), "for as long as somebody has it"
    del one
    gc.collect()
    assert len(found.settled) == 0


def test_plain_values_are_known_until_it_is_told_what_became_of_them() -> None:
    found = lane()
    value = {"n": 1}
    (event,) = found.plain.events([value])
    event.line(False, HubProtocol("http://s", 0.0).publishing.line_of)
    found.plain.keep([event], [value])
    found.settle(numbered(event), [Range(7, 7)])
    assert found.plain.events([value]) == [event]

    found.tell([event])

    assert found.plain.events([value]) != [event]
    assert event.published_offset == 7


def test_whether_anything_may_be_stored_is_told_by_the_very_events() -> None:
    found = lane()
    plain, settled, mine, others = {"n": 1}, Event({}), Event({}), Event({})
    (wrapped,) = found.plain.events([plain])
    wrapped.line(False, HubProtocol("http://s", 0.0).publishing.line_of)
    found.plain.keep([wrapped], [plain])
    found.doubt(numbered(mine, wrapped))
    found.settled[settled] = found.publications(numbered(settled), [Range(1, 1)])[0]

    given = [mine, plain, settled, others, {"n": 1}]
    told = [found.outcome(Operation(0.0, values=[value, Event({})])) for value in given]

    assert told == ["unknown", "unknown", "unknown", "not_stored", "not_stored"]
    found.clear()
    assert found.outcome(Operation(0.0, values=[mine])) == "not_stored"


def test_an_operation_that_nobody_waits_for_changes_nothing() -> None:
    operation = Operation(0.0)
    with operation.holding():
        pass
    operation.check()

    operation.abandon()

    with pytest.raises(AbandonedError), operation.holding():
        pytest.fail("it may not go on")
    with pytest.raises(AbandonedError):
        operation.check()
    with pytest.raises(AbandonedError):
        Operation(0.0, lambda: True).check()


def test_a_last_attempt_has_a_little_time() -> None:
    assert Operation(0.0).within(30.0) == LAST_S
    assert Operation(float("inf")).within(30.0) == 30.0


def test_an_error_is_raised_again_as_a_new_one() -> None:
    found = lane()
    error = found.poison(ProducerFenced(producer_group="g", partition=2, current_epoch=4))

    with pytest.raises(ProducerFenced, match="with epoch 4 by now") as again:
        found.check()

    assert again.value is not error
