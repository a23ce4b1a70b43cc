"""An event on its way out knows where it has come to."""

import gc
import weakref

import pytest

from penstock.client.event import Event, Publication, check_unpublished
from penstock.core.event import NewEvent
from penstock.errors import AlreadyPublished

STORED = Publication("shop", 3, 7, 12, 105)


def test_as_long_as_it_is_not_known_to_be_published_it_knows_nothing() -> None:
    event = Event({"n": 1})

    known = (event.published_group, event.published_partition, event.published_epoch, event.published_sequence)
    assert (*known, event.published_offset) == (None,) * 5
    assert repr(event) == "Event({'n': 1})"


def test_afterwards_it_knows_its_number_and_its_place() -> None:
    event = Event({"n": 1})

    event.published(STORED)

    known = (event.published_group, event.published_partition, event.published_epoch, event.published_sequence)
    assert (*known, event.published_offset) == ("shop", 3, 7, 12, 105)
    assert repr(event) == "Event({'n': 1}, published_sequence=12)"


def test_what_it_knows_cannot_be_written() -> None:
    with pytest.raises(AttributeError):
        Event({}).published_sequence = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "handed_in"),
    [
        ({"n": 1}, {"n": 1}),
        (b'{"n":1}', b'{"n":1}'),
        (NewEvent.of(b'{"n":1}', key="k", headers={"h": "x"}), NewEvent.of(b'{"n":1}', key="k", headers={"h": "x"})),
        (Event({"n": 1}, key="k"), NewEvent.of(b'{"n":1}', key="k")),
        (Event({"n": 1}, headers={"h": "x"}), NewEvent.of(b'{"n":1}', headers={"h": "x"})),
    ],
    ids=["a mapping", "bytes", "a new event", "with a key", "with headers"],
)
def test_anything_can_be_one(given: object, handed_in: object) -> None:
    assert Event.of(given).new() == handed_in


def test_one_is_itself_and_can_be_let_go() -> None:
    event = Event({})
    assert Event.of(event) is event

    gone = weakref.ref(event)
    del event
    gc.collect()
    assert gone() is None


def test_one_that_is_published_is_refused_with_its_number() -> None:
    event = Event({})
    event.published(STORED)

    with pytest.raises(AlreadyPublished) as refused:
        check_unpublished([Event({}), event])

    assert refused.value.fields == {"partition": 3, "sequence": 12}
