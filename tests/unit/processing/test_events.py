"""Events as handlers and consumers read them: their ids, parents, fields and effects."""

from typing import Any

import msgspec
import pytest

from penstock.core.events.decoding import EventDecoder
from penstock.core.events.encoding import encode_event
from penstock.errors import BadParameter, EventUnusable
from penstock.processing.effects import Effect, effect_id
from penstock.processing.event import (
    FieldReader,
    decode_body,
    find_partition,
    make_order_error,
    read_eid,
    read_parents,
    to_origin,
    unwrap,
    wrap,
)
from penstock.processing.stream_event import StreamEvent
from penstock.testing.factories import a_business_event, a_feed_event, an_event, an_event_type
from penstock.wire.log.reader.pages import FeedEvent
from tests.failing import has_code


def test_event_is_decoded_once() -> None:
    event = StreamEvent("order-7", 3, "order.placed", b'{"n": 1}')

    assert event.data == {"n": 1}
    assert event.data is event.data
    assert event.next == 4


def test_malformed_json_is_reported_when_it_is_decoded() -> None:
    event = StreamEvent("order-7", 3, "order.placed", b"{")
    with pytest.raises(msgspec.DecodeError):
        _ = event.data


EID = "00000000-0000-0000-0000-00000000000a"


def test_event_of_a_feed_and_a_decoded_one_are_read_alike() -> None:
    event = a_business_event(10)

    assert decode_body(a_feed_event(event)) == decode_body(event) == event
    assert read_eid(a_feed_event(event), 0, None) == read_eid(event, 0, None) == EID
    assert (find_partition(a_feed_event(event, partition=3)), find_partition(event)) == (3, 0)


def test_event_read_into_a_type_is_read_alike() -> None:
    raw = msgspec.Raw(encode_event(a_business_event(10, metadata={"parent_eids": ["x"]})))
    event = FeedEvent[int](3, raw, None, None, 0, EventDecoder(int), None, 1)

    assert (read_eid(event, 0, None), read_parents(event, 0, None), find_partition(event)) == (EID, ("x",), 3)
    assert decode_body(event)["order_id"] == 10


def test_case_of_a_uuid_is_ignored_and_that_of_another_id_is_not() -> None:
    assert read_eid({"metadata": {"eid": EID.upper()}}, 0, None) == EID
    assert read_eid({"metadata": {"eid": "Order-A"}}, 0, None) == "Order-A"


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
def test_event_without_an_id_is_named(event: Any, told: str) -> None:
    with pytest.raises(EventUnusable, check=has_code("eid-missing")) as raised:
        read_eid(a_feed_event(event, partition=2), 5, "order.placed")

    assert str(raised.value).startswith("event 5 of the batch, of 'order.placed', partition 2")
    assert told in raised.value.detail
    assert raised.value.index == 5
    assert raised.value.event_type == "order.placed"


def test_parents_are_named_once_each() -> None:
    event = a_business_event(1, metadata={"parent_eids": [EID, EID.upper(), "x"]})

    assert read_parents(event, 0, None) == (EID, "x")
    assert read_parents(a_business_event(), 0, None) == ()


@pytest.mark.parametrize("parents", ["x", [7], {"x": 1}], ids=["text", "numbers", "object"])
def test_malformed_parents_are_refused(parents: Any) -> None:
    event = a_business_event(10, metadata={"parent_eids": parents})

    with pytest.raises(EventUnusable, check=has_code("order-unknown"), match="parent_eids must be a list of ids"):
        read_parents(event, 0, None)


def test_error_names_the_event_by_everything_known_of_it() -> None:
    event = a_business_event(10, metadata={"event_type": "order.paid"})

    error = make_order_error(event, None, None, "why")

    assert error.detail == f"an event, of 'order.paid', partition 0, eid '{EID}' cannot be put in order: why"
    assert (error.event_type, error.eid) == ("order.paid", EID)


def test_event_type_is_given_by_its_definition_or_its_name() -> None:
    definition = an_event_type("order.placed", category="Business")

    assert to_origin(definition) == ("order.placed", "business", definition)
    assert to_origin("order.placed") == ("order.placed", None, {})


@pytest.mark.parametrize("given", [None, {"category": "data"}, 7], ids=repr)
def test_malformed_event_type_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"as Client\.event_type gives it, or by name"):
        to_origin(given)


CAUSE_EID = "8c7a2a7e-3f0c-4c57-8a4e-0d5f9f3a1b11"


def event(stream: str = "order-1", index: int = 3, eid: str | None = None) -> StreamEvent:
    raw = b"{}" if eid is None else b'{"metadata":{"eid":"%s"}}' % eid.encode()
    return StreamEvent(stream, index, "placed", raw)


def test_effect_has_the_id_of_its_cause_and_its_name() -> None:
    ids = {
        effect_id(event(eid=CAUSE_EID), "a"),
        effect_id(event("other", 9, CAUSE_EID), "a"),
        effect_id(CAUSE_EID, "a"),
    }
    assert len(ids) == 1, "wherever the event is read"
    assert effect_id(CAUSE_EID, "b") not in ids


def test_cause_without_an_id_is_known_by_its_place() -> None:
    ids = [effect_id(event(*place), "a") for place in (("order-1", 3), ("order-1", 4), ("order-2", 3), ("order-1", 3))]
    assert len(set(ids)) == 3
    assert ids[0] == ids[3]


def test_place_is_one_in_its_numbering() -> None:
    places = (StreamEvent("order-1", 3, "placed", b"{}", numbering=numbering) for numbering in ("a/0@1", "a/1@1", ""))
    assert len({effect_id(place, "a") for place in places}) == 3


def test_event_type_stands_for_a_name() -> None:
    assert Effect("mail.sent", {}).resolved_name == "mail.sent"
    assert Effect("mail.sent", {}, "to buyer").resolved_name == "to buyer"


NUMBERS = ((int,), "a whole number")


def test_function_receives_the_event_as_it_was_handed_in() -> None:
    event = a_feed_event({"version": "v7"}, partition=3)

    version = FieldReader(lambda event: int(event.data["version"][1:]), NUMBERS, "order_by")
    partition = FieldReader(lambda event: (event.partition, 1), NUMBERS, "order_by")

    assert version.read(event, decode_body(event), 0, None) == (7,)
    assert partition.read(event, decode_body(event), 0, None) == (3, 1)


@pytest.mark.parametrize("fields", [[], "version", [""], [7]], ids=repr)
def test_fields_are_a_list_of_paths(fields: Any) -> None:
    with pytest.raises(BadParameter, match=r"order_by is .*; allowed: a list of paths such as 'data\.version'"):
        FieldReader(fields, NUMBERS, "order_by")


def test_single_value_stands_for_itself() -> None:
    assert [wrap(unwrap(values)) for values in ((7,), ("a", 7))] == [(7,), ("a", 7)]
