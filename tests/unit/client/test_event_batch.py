"""A batch takes what fits, and knows afterwards what it has come to."""

import pytest

from penstock.client.event import Event, Publication
from penstock.client.event_batch import EventBatch
from penstock.client.producer_options import PublishResult
from penstock.core.producer import Range
from penstock.errors import AlreadyPublished, BadParameter, Conflict

RESULT = PublishResult(2, 0, 14, 3, (Range(5, 7),), duplicate=False, attempts=1)


def batch(max_bytes: int = 100, count_max: int = 10) -> EventBatch:
    return EventBatch("a.b", 2, max_bytes, line=lambda event: bytes(event.data), count_max=count_max)


def test_it_takes_events_as_long_as_they_fit() -> None:
    found = batch(max_bytes=10)

    assert [found.try_add(each) for each in (b"1234", b"12345", b"12", b"1")] == [True, True, False, True]
    assert (found.count, found.byte_count) == (3, 10)
    assert [event.data for event in found.events] == [b"1234", b"12345", b"1"]


def test_it_takes_no_more_than_a_hub_does() -> None:
    found = batch(count_max=2)

    assert [found.try_add(b"1") for _ in range(3)] == [True, True, False]


def test_what_never_fits_is_an_error() -> None:
    with pytest.raises(BadParameter) as refused:
        batch(max_bytes=3).try_add(b"1234")

    assert refused.value.fields == {"parameter": "max_bytes", "value": 3, "allowed": "4 or more for this event"}


def test_an_event_is_in_it_once() -> None:
    found, event = batch(), Event(b"1")
    assert found.try_add(event)
    assert found.try_add(b"2")

    with pytest.raises(BadParameter, match="in the batch already"):
        found.try_add(event)


def test_what_is_published_is_not_taken() -> None:
    event = Event(b"1")
    event.published(Publication("g", 1, 0, 4, 4))

    with pytest.raises(AlreadyPublished):
        batch().try_add(event)


def test_while_it_is_sent_it_stays_as_it_is_and_is_not_sent_again() -> None:
    found = batch()
    found.try_add(b"1")
    found.sending()

    with pytest.raises(Conflict, match="takes no more events"):
        found.try_add(b"2")
    with pytest.raises(Conflict, match="being sent already"):
        found.sending()

    found.sent(None)
    assert found.try_add(b"2")
    assert (found.result, found.starting_published_sequence, list(found.published_sequences)) == (None, None, [])
    found.check_open()


def test_afterwards_it_knows_its_numbers_which_wrap_around_and_is_closed() -> None:
    found, events = batch(), [Event(b"1"), Event(b"2"), Event(b"3")]
    for number, event in zip((14, 15, 0), events, strict=True):
        found.try_add(event)
        event.published(Publication("g", 2, 0, number, 5))
    found.sent(RESULT)

    assert (found.result, found.starting_published_sequence) == (RESULT, 14)
    assert list(found.published_sequences) == [14, 15, 0]
    with pytest.raises(AlreadyPublished):
        found.check_open()
    with pytest.raises(AlreadyPublished):
        found.try_add(b"4")
