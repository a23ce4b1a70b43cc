"""Events and batches on their way out: the line of an event, its published number, and the events that fit a batch."""

import weakref
from typing import Any

import pytest

from penstock.client.log.publishing import Event, Publication, check_unpublished
from penstock.client.producers.event_batch import EventBatch
from penstock.client.producers.options import PublishResult
from penstock.client.protocol import HubProtocol
from penstock.core.events.event import NewEvent
from penstock.core.producers import OffsetRange
from penstock.errors import AlreadyUsed, BadParameter, Conflict
from tests.failing import has_code

STORED = Publication("shop", 3, 7, 12, 105)
RESULT = PublishResult(2, 0, 14, 3, (OffsetRange(5, 7),), duplicate=False, attempts=1)
PUBLISHING = HubProtocol("http://s", 0.0).publishing


def place(event: Event) -> tuple[Any, ...]:
    numbers = (event.published_epoch, event.published_sequence, event.published_offset)
    return (event.published_group, event.published_partition, *numbers)


def test_event_has_its_place_once_it_is_published() -> None:
    event = Event({"n": 1})
    assert (place(event), repr(event)) == ((None,) * 5, "Event({'n': 1})")

    event.mark_published(STORED)

    assert (place(event), repr(event)) == (("shop", 3, 7, 12, 105), "Event({'n': 1}, published_sequence=12)")
    with pytest.raises(AttributeError):
        event.published_sequence = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"n": 1}, b'{"data":{"n":1}}'),
        (b'{"n":1}', b'{"data":{"n":1}}'),
        (
            NewEvent.of(b'{"n":1}', key="k", headers={"h": "x"}, partition=3),
            b'{"data":{"n":1},"key":"k","headers":{"h":"x"},"partition":3}',
        ),
        (Event({"n": 1}, key="k"), b'{"data":{"n":1},"key":"k"}'),
        (Event({"n": 1}, headers={"h": "x"}), b'{"data":{"n":1},"headers":{"h":"x"}}'),
    ],
    ids=["mapping", "bytes", "new event", "key", "headers"],
)
def test_line_of_an_event_has_its_data_key_and_headers(given: object, line: bytes) -> None:
    assert Event.of(given).line(False, PUBLISHING.line_of) == line + b"\n"


def test_line_of_an_event_is_made_once_with_and_once_without_metadata() -> None:
    event = Event({"n": 1})

    lines = [event.line(has_metadata, PUBLISHING.line_of) for has_metadata in (True, True, False)]

    assert lines[0] == lines[1] != lines[2]
    assert b'"eid"' in lines[0] and b"metadata" not in lines[2]


@pytest.mark.parametrize("changed", [{"n": 2}, {"n": float("nan")}, {"n": object()}], ids=["value", "NaN", "no JSON"])
def test_event_is_unlike_its_object_once_that_has_changed(changed: dict[str, Any]) -> None:
    value: dict[str, Any] = {"n": 1}
    event = Event(value)
    event.line(False, PUBLISHING.line_of)
    assert event.is_like(Event(value))
    assert not event.is_like(Event(value, key="k"))

    value.update(changed)

    assert not event.is_like(Event(value))


def test_event_of_an_event_is_itself_and_is_kept_by_nobody() -> None:
    event = Event({})
    assert Event.of(event) is event

    gone = weakref.ref(event)
    del event
    assert gone() is None


def batch(max_bytes: int = 100, count_max: int = 10) -> EventBatch:
    return EventBatch("a.b", 2, max_bytes, line=lambda event: bytes(event.data), count_max=count_max)


def test_batch_takes_events_up_to_its_limits() -> None:
    by_bytes, by_count = batch(max_bytes=10), batch(count_max=2)

    assert [by_bytes.try_add(each) for each in (b"1234", b"12345", b"12", b"1")] == [True, True, False, True]
    assert [by_count.try_add(b"1") for _ in range(3)] == [True, True, False]
    assert (by_bytes.count, by_bytes.byte_count) == (3, 10)
    assert [event.data for event in by_bytes.events] == [b"1234", b"12345", b"1"]


def test_batch_refuses_events_that_never_fit_are_in_it_or_are_published() -> None:
    found, event, published = batch(max_bytes=3), Event(b"1"), Event(b"2")
    published.mark_published(STORED)
    assert found.try_add(event)

    with pytest.raises(BadParameter) as too_large:
        found.try_add(b"1234")
    with pytest.raises(BadParameter, match="in the batch already"):
        found.try_add(event)
    for refuses in (found.try_add, lambda each: check_unpublished([Event({}), each])):
        with pytest.raises(AlreadyUsed, check=has_code("already-published")) as refused:
            refuses(published)
        assert refused.value.fields == {"partition": 3, "sequence": 12}
    assert too_large.value.fields == {"parameter": "max_bytes", "value": 3, "allowed": "4 or more for this event"}


def test_batch_stays_as_it_is_while_it_is_sent() -> None:
    found = batch()
    found.try_add(b"1")
    found.begin_sending()

    with pytest.raises(Conflict, match="takes no more events"):
        found.try_add(b"2")
    with pytest.raises(Conflict, match="being sent already"):
        found.begin_sending()

    found.end_sending(None)
    assert found.try_add(b"2")
    assert (found.result, found.starting_published_sequence, list(found.published_sequences)) == (None, None, [])
    found.check_open()


def test_published_batch_is_closed_and_has_its_numbers_which_wrap_around() -> None:
    found, events = batch(), [Event(b"1"), Event(b"2"), Event(b"3")]
    for number, event in zip((14, 15, 0), events, strict=True):
        found.try_add(event)
        event.mark_published(Publication("g", 2, 0, number, 5))
    found.end_sending(RESULT)

    assert (found.result, found.starting_published_sequence) == (RESULT, 14)
    assert list(found.published_sequences) == [14, 15, 0]
    for refuses in (found.check_open, lambda: found.try_add(b"4")):
        with pytest.raises(AlreadyUsed, check=has_code("already-published")):
            refuses()
