"""The state of one partition's producer: its next number, the batch in doubt, and the events handed in before."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.client.log.publishing import Event
from penstock.client.producers import partition_state as plain_values
from penstock.client.producers.options import PartitionPublishingOptions
from penstock.client.producers.partition_state import (
    AbandonedError,
    PartitionState,
    PlainValues,
    ProducerCall,
    SequencedBatch,
)
from penstock.client.protocol import HubProtocol
from penstock.core.events.event import NewEvent
from penstock.core.producers import OffsetRange
from penstock.errors import PayloadMismatch, ProducerFenced
from tests.unit.client.play import shown_producer

LINE_OF = HubProtocol("http://s", 0.0).publishing.line_of


def state(next_sequence: int = 0) -> PartitionState:
    found = PartitionState(2, PartitionPublishingOptions())
    found.adopt(shown_producer(partition=2, epoch=3, next_sequence=next_sequence))
    return found


def batch(*events: Event, first: int = 0) -> SequencedBatch:
    return SequencedBatch(3, first, events, b"body")


def keep(values: list[Any], found: PlainValues | None = None) -> tuple[PlainValues, list[Event]]:
    """Return the events of *values*, and the memory that knows them."""
    found = PlainValues() if found is None else found
    events = found.events(values)
    for event in events:
        event.line(False, LINE_OF)
    found.keep(events, values)
    return found, events


def test_sequence_numbers_wrap_around_at_the_modulus() -> None:
    found = state(next_sequence=14)

    found.advance(4, [OffsetRange(5, 6), OffsetRange(9, 10)])

    assert (found.next, found.last_published, found.last_offset) == (2, 1, 10)
    publications = found.publications(
        batch(*(Event({}) for _ in range(4)), first=14), [OffsetRange(5, 6), OffsetRange(9, 10)]
    )
    assert [(each.sequence, each.offset) for each in publications] == [(14, 5), (15, 6), (0, 9), (1, 10)]


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (PayloadMismatch(producer_group="g", partition=2, differs_at=4, outcome="unknown"), {"differs_at": 4}),
        (ProducerFenced(producer_group="g", partition=2, current_epoch=4), {"current_epoch": 4}),
    ],
    ids=["mismatch", "fenced"],
)
def test_poisoned_lane_raises_a_new_error_each_time_without_the_outcome(error: Any, fields: dict[str, int]) -> None:
    found = state()
    found.check()
    fail = found.fail(error)

    for _ in range(2):
        with pytest.raises(type(error)) as again:
            found.check()
        assert again.value.fields == {"producer_group": "g", "partition": 2} | fields
        assert again.value is not fail


def test_settled_events_are_known_until_they_are_told_or_let_go() -> None:
    found = state()
    one, two, three = (Event({"n": number}) for number in range(3))
    found.settle(batch(one, two), [OffsetRange(7, 8)])

    assert found.are_settled([two, one])
    assert not found.are_settled([one, three])
    found.confirm([three, two])
    assert (two.published_offset, two.published_sequence, three.published_offset) == (8, 1, None)
    assert not found.are_settled([two])
    assert found.are_settled([one])
    del one
    assert len(found.settled) == 0


def test_settled_plain_values_are_known_until_they_are_told() -> None:
    found, value = state(), {"n": 1}
    _, [event] = keep([value], found.plain)
    found.settle(batch(event), [OffsetRange(7, 7)])
    assert found.plain.events([value]) == [event]

    found.confirm([event])

    assert found.plain.events([value]) != [event]
    assert event.published_offset == 7


def test_outcome_is_unknown_for_the_very_events_in_doubt_or_settled() -> None:
    found = state()
    plain, settled, mine, other = {"n": 1}, Event({}), Event({}), Event({})
    _, [wrapped] = keep([plain], found.plain)
    found.mark_unresolved(batch(mine, wrapped))
    found.settled[settled] = found.publications(batch(settled), [OffsetRange(1, 1)])[0]

    given = [mine, plain, settled, other, {"n": 1}]
    outcomes = [found.outcome(ProducerCall(0.0, values=[value, Event({})])) for value in given]

    assert outcomes == ["unknown", "unknown", "unknown", "not_stored", "not_stored"]
    found.mark_ready()
    assert found.outcome(ProducerCall(0.0, values=[mine])) == "not_stored"


def test_abandoned_operation_does_not_continue() -> None:
    call = ProducerCall(0.0)
    with call.hold():
        pass
    call.check()

    call.abandon()

    with pytest.raises(AbandonedError), call.hold():
        pytest.fail("it may not go on")
    for abandoned in (call, ProducerCall(0.0, lambda: True)):
        with pytest.raises(AbandonedError):
            abandoned.check()


def test_plain_values_are_known_again_by_identity_unless_they_have_changed() -> None:
    same, changed, text, own = {"n": 1}, {"n": 2}, '{"n":3}', Event({"n": 1})
    new = NewEvent.of(b'{"n":1}', key="a")
    values = [same, changed, text, own, new]
    found, events = keep(values)
    found.keep(events, values)  # After a second attempt.

    changed["n"] = 9
    again = found.events([changed, {"n": 1}, same, text, own, own.data, new, replace(new, key="b")])

    assert [event in events for event in again] == [False, False, True, True, True, False, True, False]
    assert [again[number] for number in (2, 3, 4, 6)] == [events[0], events[2], own, events[4]]
    found.drop(events)
    assert found.events([same]) != events[:1]


def test_plain_value_that_is_given_twice_is_two_events_each_time() -> None:
    same = {"n": 1}
    found, (first, second) = keep([same, same])
    assert first is not second

    assert found.events([same, same, same])[:2] == [first, second]
    found.drop([first, Event({})])
    assert found.events([same, same])[0] is second
    assert found.events([same, same])[1] is not first


def test_plain_values_beyond_the_limit_are_forgotten_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_values, "VALUES_MAX", 2)
    values = [{"n": number} for number in range(3)]
    found, events = keep(values)

    found.drop_oldest()

    assert [one is other for one, other in zip(found.events(values), events, strict=True)] == [False, True, True]
