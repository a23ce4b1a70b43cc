"""Ordering keys are compared as the values that they are."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import OrderUnknown
from penstock.processing.ordering import Ordering, compare
from penstock.testing.factories import a_data_event

BY_VERSION = Ordering(["data.version"], "order.changed")


@pytest.mark.parametrize(
    "ascending",
    [
        (9, 10, 2**63, 2**70),
        (1, 1.5, 2),
        ("9", "10", "11"),
        ("099", "0100"),
        ("1" + "0" * 5_000, "1" + "0" * 4_999 + "1"),
        ("a10", "a9"),
        ("2024-05-01T10:00:00Z", "2024-05-01T10:00:00.5Z", "2024-05-01T10:00:00.50001Z", "2024-05-01T10:00:01Z"),
        ("2024-05-01T10:00:00+02:00", "2024-05-01T09:00:00Z", "2024-05-01T10:00:00.000Z", "2024-05-01T10:00:00-00:01"),
        ("2016-12-31T23:59:59.999Z", "2016-12-31T23:59:60Z", "2017-01-01T00:00:01Z"),
        ("2024-13-01T10:00:00Z", "2024-13-01T10:00:00z"),
        ("²", "³"),
    ],
    ids=[
        "whole numbers", "numbers", "digits", "padded digits", "very many digits", "letters", "fractions", "zones",
        "leap second", "no time", "no digits",
    ],
)  # fmt: skip
def test_values_are_compared_as_what_they_are(ascending: tuple[Any, ...]) -> None:
    for earlier, later in pairwise(ascending):
        assert (compare(earlier, later), compare(later, earlier), compare(later, later)) == (-1, 1, 0)


def test_one_moment_written_in_two_ways_is_one() -> None:
    assert compare("2024-05-01T12:00:00.50+02:00", "2024-05-01t10:00:00.5z") == 0


@given(st.lists(st.integers() | st.floats(-1e15, 1e15), min_size=3, max_size=3))
def test_numbers_are_in_one_order_as_numbers(numbers: list[float]) -> None:
    assert compare(numbers[0], numbers[1]) == (numbers[0] > numbers[1]) - (numbers[0] < numbers[1])


def test_the_first_field_is_the_weightiest() -> None:
    ordering = Ordering(["data.epoch", "data.version"])
    events = [a_data_event(epoch=epoch, version=version) for epoch, version in ((2, 1), (1, 9), (1, 10))]

    ordered = ordering.sort(enumerate(events))

    assert [(event["data"]["epoch"], event["data"]["version"]) for event in ordered] == [(1, 9), (1, 10), (2, 1)]


def test_equal_keys_stay_as_they_came() -> None:
    events = [a_data_event(number, version=number % 2) for number in range(4)]

    assert [event["data"]["order_id"] for event in BY_VERSION.sort(enumerate(events))] == [0, 2, 1, 3]


@pytest.mark.parametrize("value", [1e16, float("inf"), float("nan"), -(2.0**53)], ids=repr)
def test_a_number_that_is_not_exact_is_no_key(value: float) -> None:
    event = {"data": {"version": value}}

    with pytest.raises(OrderUnknown, match=r"event 3 of the batch, of 'order\.changed'.* is not told exactly"):
        BY_VERSION.key(event, event, 3)


@pytest.mark.parametrize("value", [None, True, [1], {"n": 1}], ids=repr)
def test_what_is_neither_number_nor_text_is_no_key(value: Any) -> None:
    event = {"data": {"version": value}}

    with pytest.raises(OrderUnknown, match=r"data\.version (is missing; it )?must be a number or a text"):
        BY_VERSION.key(event, event, 0)


def test_a_number_and_a_text_cannot_be_compared() -> None:
    with pytest.raises(OrderUnknown) as raised:
        BY_VERSION.compare(a_data_event(10), 2, (7,), ("7",))

    assert "its ordering key [7] cannot be compared with ['7']" in raised.value.detail
    assert raised.value.fields["eid"] == "00000000-0000-0000-0000-00000000000a"


def test_keys_of_different_lengths_cannot_be_compared() -> None:
    with pytest.raises(OrderUnknown, match="cannot be compared"):
        BY_VERSION.compare(a_data_event(), 0, (7,), (7, 8))
