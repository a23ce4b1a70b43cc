"""Values are read out of events by paths or by a function."""

from typing import Any

import pytest

from penstock.errors import BadParameter, OrderUnknown
from penstock.processing.event import body
from penstock.processing.fields import Reader, many, one
from penstock.testing.factories import a_feed_event

NUMBERS = ((int,), "a whole number")


def test_paths_lead_through_the_whole_event() -> None:
    event = {"data": {"id": 7, "a.b": {"c": 8}}, "n": 9}
    feed_event = a_feed_event(event)
    reader = Reader(["data.id", "data.'a.b'.c", "n"], NUMBERS, "order_by")

    assert reader.read(event, body(event), 0, None) == reader.read(feed_event, body(feed_event), 0, None) == (7, 8, 9)


def test_a_function_is_given_the_event_as_it_was_handed_in() -> None:
    event = a_feed_event({"version": "v7"}, partition=3)

    assert Reader(lambda event: int(event.data["version"][1:]), NUMBERS, "order_by").read(
        event, body(event), 0, None
    ) == (7,)
    assert Reader(lambda event: (event.partition, 1), NUMBERS, "order_by").read(event, body(event), 0, None) == (3, 1)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"data": {}}, "data.version is missing; it must be a whole number"),
        ({"data": {"version": None}}, "data.version is missing"),
        ({"data": {"version": "7"}}, 'data.version must be a whole number, not "7"'),
        ({"data": {"version": True}}, "data.version must be a whole number, not true"),
        ({"data": [7]}, "data.version is missing"),
        ("text", "data.version is missing"),
    ],
    ids=["missing", "null", "text", "boolean", "no object", "no event"],
)
def test_a_value_that_will_not_do_is_named_with_its_event(event: Any, told: str) -> None:
    with pytest.raises(OrderUnknown) as raised:
        Reader(["data.version"], NUMBERS, "order_by").read(event, event, 4, "order.changed")

    assert told in raised.value.detail
    assert raised.value.detail.startswith("event 4 of the batch, of 'order.changed'")


def test_so_is_what_a_function_returns() -> None:
    with pytest.raises(OrderUnknown, match="the function's value must be a whole number"):
        Reader(lambda _: [7], NUMBERS, "order_by").read({}, {}, 0, None)


@pytest.mark.parametrize("fields", [[], "version", [""], [7]], ids=repr)
def test_fields_are_a_list_of_paths(fields: Any) -> None:
    with pytest.raises(BadParameter, match=r"order_by is .*; allowed: a list of paths such as 'data\.version'"):
        Reader(fields, NUMBERS, "order_by")


def test_a_single_value_stands_for_itself() -> None:
    assert [many(one(values)) for values in ((7,), ("a", 7))] == [(7,), ("a", 7)]
