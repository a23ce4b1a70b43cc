"""What is looked at in an event: its id, its parents, and how an error names it."""

from typing import Any

import msgspec
import pytest

from penstock.core.document import document
from penstock.core.event_decoder import EventDecoder
from penstock.errors import EidMissing, OrderUnknown
from penstock.processing.event import body, eid_of, parents_of, partition_of, source_of, unplaced
from penstock.testing.factories import a_business_event, a_feed_event, an_event, an_event_type
from penstock.wire.reader.page import TypedEvent

EID = "00000000-0000-0000-0000-00000000000a"


def test_an_event_of_a_feed_and_one_that_is_decoded_are_looked_at_alike() -> None:
    event = a_business_event(10)

    assert body(a_feed_event(event)) == body(event) == event
    assert eid_of(a_feed_event(event), 0, None) == eid_of(event, 0, None) == EID
    assert (partition_of(a_feed_event(event, partition=3)), partition_of(event)) == (3, 0)


def test_so_is_one_that_was_read_into_a_type() -> None:
    raw = msgspec.Raw(document(a_business_event(10, metadata={"parent_eids": ["x"]})))
    event = TypedEvent[int](3, raw, None, EventDecoder(int), (None, 1))

    assert (eid_of(event, 0, None), parents_of(event, 0, None), partition_of(event)) == (EID, ("x",), 3)
    assert body(event)["order_id"] == 10


def test_the_case_of_a_uuid_says_nothing_and_that_of_another_id_does() -> None:
    assert eid_of({"metadata": {"eid": EID.upper()}}, 0, None) == EID
    assert eid_of({"metadata": {"eid": "Order-A"}}, 0, None) == "Order-A"


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (an_event(), "is missing; it must be a text of 1 to 255 characters"),
        ({"metadata": {"eid": None}}, "is missing"),
        ({"metadata": "none"}, "is missing"),
        ({"metadata": {"eid": 7}}, "must be a text of 1 to 255 characters, not 7"),
        ({"metadata": {"eid": ""}}, 'not ""'),
        ({"metadata": {"eid": "a\0"}}, "must be"),
        ({"metadata": {"eid": "a" * 256}}, "must be"),
        ('"text of a FeedAPI server"', "is missing"),
    ],
    ids=["no metadata", "null", "metadata of text", "number", "empty", "NUL", "too long", "text"],
)
def test_an_event_without_an_id_is_named(event: Any, told: str) -> None:
    with pytest.raises(EidMissing) as raised:
        eid_of(a_feed_event(event, partition=2), 5, "order.placed")

    assert str(raised.value).startswith("event 5 of the batch, of 'order.placed', partition 2")
    assert told in raised.value.detail
    assert raised.value.fields["index"] == 5
    assert raised.value.fields["event_type"] == "order.placed"


def test_parents_are_named_once_each() -> None:
    event = a_business_event(1, metadata={"parent_eids": [EID, EID.upper(), "x"]})

    assert parents_of(event, 0, None) == (EID, "x")
    assert parents_of(a_business_event(), 0, None) == ()


@pytest.mark.parametrize("parents", ["x", [7], {"x": 1}], ids=["text", "numbers", "object"])
def test_what_is_no_list_of_parents_is_refused(parents: Any) -> None:
    event = a_business_event(10, metadata={"parent_eids": parents})

    with pytest.raises(OrderUnknown, match="parent_eids must be a list of ids"):
        parents_of(event, 0, None)


def test_an_error_names_the_event_by_all_that_is_known_of_it() -> None:
    event = a_business_event(10, metadata={"event_type": "order.paid"})

    error = unplaced(event, None, None, "why")

    assert error.detail == f"an event, of 'order.paid', partition 0, eid '{EID}' cannot be put in order: why"
    assert (error.fields["event_type"], error.fields["eid"]) == ("order.paid", EID)


def test_an_event_type_is_told_by_its_definition_or_its_name() -> None:
    definition = an_event_type("order.placed", category="Business")

    assert source_of(definition) == ("order.placed", "business", definition)
    assert source_of("order.placed") == ("order.placed", None, {})


@pytest.mark.parametrize("given", [None, {"category": "data"}, 7], ids=repr)
def test_what_is_no_event_type_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"as Client\.event_type gives it, or by name"):
        source_of(given)
