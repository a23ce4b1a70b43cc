"""An event on its way out knows where it has come to."""

import gc
import weakref
from typing import Any

import pytest

from penstock.client.event import Event, Publication, check_unpublished
from penstock.client.hub_protocol import HubProtocol
from penstock.core.event import NewEvent
from penstock.errors import AlreadyPublished

STORED = Publication("shop", 3, 7, 12, 105)


PUBLISHING = HubProtocol("http://s", 0.0).publishing


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
    ids=["a mapping", "bytes", "a new event", "with a key", "with headers"],
)
def test_anything_can_be_one(given: object, line: bytes) -> None:
    assert Event.of(given).line(False, PUBLISHING.line_of) == line + b"\n"


def test_its_line_is_made_once_for_each_kind_of_feed() -> None:
    event = Event({"n": 1})

    lines = [event.line(has_metadata, PUBLISHING.line_of) for has_metadata in (True, True, False)]

    assert lines[0] == lines[1] != lines[2]
    assert b'"eid"' in lines[0] and b"metadata" not in lines[2]


@pytest.mark.parametrize(
    "changed", [{"n": 2}, {"n": float("nan")}, {"n": object()}], ids=["another", "no number", "no JSON"]
)
def test_it_is_known_whether_its_object_has_changed_since(changed: dict[str, Any]) -> None:
    value: dict[str, Any] = {"n": 1}
    event = Event(value)
    event.line(False, PUBLISHING.line_of)
    assert event.is_like(Event(value))
    assert not event.is_like(Event(value, key="k"))

    value.update(changed)

    assert not event.is_like(Event(value))


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
