"""Ordering keys are compared as the values that they are."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import EventUnusable
from penstock.processing.event import Ordering, compare
from penstock.testing.factories import a_data_event
from tests.exhaustive import examples
from tests.failing import has_code

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
        ("2026-10-25T02:30:00+0200", "2026-10-25T02:10:00+0100", "2026-10-25T02:20+01", "2026-10-25 02:30:00 +0100"),
        ("2026-01-01T12:00Z", "2026-01-01t12:00:00.5z", "20260101T120000,75Z", "2026-01-01T13:00:01+01:00"),
        ("2016-12-31T23:59:59.999Z", "2017-01-01T00:59:60+01:00", "2016-12-31T23:59:60.5Z", "2017-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00Z", "9999-12-31T23:59:60-23:59"),
        ("2024-13-01T10:00:00Z", "2024-13-01T10:00:00z"),
        ("2026-01-01T12:00:00", "2026-01-01T12:00:00.5", "2026-01-01T12:00:01"),
        ("²", "³"),
        ("\uffff", "\U00010000"),
        ("", " ", "-10", "-5", "1.10", "1.5", "v10", "v9"),
    ],
    ids=[
        "whole numbers", "numbers", "digits", "padded digits", "very many digits", "letters", "fractions", "zones",
        "zones without colons", "spellings", "leap second", "first and last", "no time", "no zone", "no digits",
        "code points", "other texts",
    ],
)  # fmt: skip
def test_values_are_compared_by_their_kind(ascending: tuple[Any, ...]) -> None:
    for earlier, later in pairwise(ascending):
        assert (compare(earlier, later), compare(later, earlier), compare(later, later)) == (-1, 1, 0)


@pytest.mark.parametrize(
    "spelling",
    [
        "2024-05-01T10:00:00Z", "2024-05-01t10:00:00.000z", "2024-05-01 10:00Z", "2024-05-01T12:00:00+02:00",
        "2024-05-01T12:00:00+0200", "2024-05-01T12:00+02", "2024-05-01T10:00-00:00", "2024-04-30T23:30:00.0 -1030",
        "20240501T100000Z", "20240501T1200+0200", "2024-05-01T10:00:00,0Z",
    ],
)  # fmt: skip
def test_equal_moments_are_equal_in_any_spelling(spelling: str) -> None:
    assert compare(spelling, "2024-05-01T10:00:00Z") == compare("2024-05-01T10:00:00Z", spelling) == 0


@st.composite
def times(draw: st.DrawFn) -> tuple[datetime, str]:
    """A time in some zone, and how it is spelled."""
    passed = timedelta(microseconds=draw(st.integers(-(10**10), 10**10) | st.integers(-(10**16), 10**16)))
    zone = timezone(timedelta(minutes=draw(st.integers(-23 * 60, 23 * 60))))
    at = (datetime(2026, 10, 25, tzinfo=UTC) + passed).astimezone(zone)
    forms = ["%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%d %H:%M:%S.%f %z", "%Y%m%dt%H%M%S,%f%z"]
    return at, draw(st.just(at.isoformat()) | st.sampled_from(forms).map(at.strftime))


@given(times(), times())
def test_moments_are_in_the_order_of_time(one: tuple[datetime, str], other: tuple[datetime, str]) -> None:
    assert compare(one[1], other[1]) == (one[0] > other[0]) - (one[0] < other[0])
    assert compare(one[0].isoformat(), one[1]) == 0


@given(st.lists(st.integers() | st.floats(-1e15, 1e15), min_size=3, max_size=3))
def test_numbers_are_in_one_order(numbers: list[float]) -> None:
    assert compare(numbers[0], numbers[1]) == (numbers[0] > numbers[1]) - (numbers[0] < numbers[1])


def test_first_field_weighs_most() -> None:
    ordering = Ordering(["data.epoch", "data.version"])
    events = [a_data_event(epoch=epoch, version=version) for epoch, version in ((2, 1), (1, 9), (1, 10))]

    ordered = ordering.sort(enumerate(events))

    assert [(event["data"]["epoch"], event["data"]["version"]) for event in ordered] == [(1, 9), (1, 10), (2, 1)]


def test_equal_keys_keep_their_order() -> None:
    events = [a_data_event(number, version=number % 2) for number in range(4)]

    assert [event["data"]["order_id"] for event in BY_VERSION.sort(enumerate(events))] == [0, 2, 1, 3]


@pytest.mark.parametrize("value", [1e16, float("inf"), float("nan"), -(2.0**53)], ids=repr)
def test_inexact_number_is_refused_as_a_key(value: float) -> None:
    event = {"data": {"version": value}}

    with pytest.raises(
        EventUnusable,
        check=has_code("order-unknown"),
        match=r"event 3 of the batch, of 'order\.changed'.* is not told exactly",
    ):
        BY_VERSION.read_key(event, event, 3)


@pytest.mark.parametrize("value", [None, True, [1], {"n": 1}], ids=repr)
def test_value_other_than_number_or_text_is_refused_as_a_key(value: Any) -> None:
    event = {"data": {"version": value}}

    with pytest.raises(
        EventUnusable,
        check=has_code("order-unknown"),
        match=r"data\.version (is missing; it )?must be a number or a text",
    ):
        BY_VERSION.read_key(event, event, 0)


NOON = "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("mine", "its", "kinds"),
    [
        (7, "7", "7 is a number, '7' digits"),
        ("1a", "9", "'1a' is another text, '9' digits"),
        ("-5", "5", "'-5' is another text, '5' digits"),
        ("20260101", NOON, "'20260101' is digits, '2026-01-01T12:00:00Z' a time with a zone"),
        ("2026-01-01T12:10:00", NOON, "'2026-01-01T12:10:00' is another text, '2026-01-01T12:00:00Z' a time with"),
        ("2026-01-01T25:00:00Z", NOON, "'2026-01-01T25:00:00Z' is another text"),
        ("2026-02-29T12:00:00Z", NOON, "'2026-02-29T12:00:00Z' is another text"),
        ("2026-02-28T12:00:61Z", NOON, "'2026-02-28T12:00:61Z' is another text"),
        (7, datetime(2026, 1, 1, tzinfo=UTC), "7 is a number, datetime.datetime(2026, 1, 1, 0, 0, tzinfo="),
        (7, None, "7 is a number, None a NoneType"),
    ],
    ids=[
        "number and digits", "text and digits", "sign and digits", "digits and time", "time without zone", "no hour",
        "no day", "no second", "number and other", "number and nothing",
    ],
)  # fmt: skip
def test_values_of_different_kinds_cannot_be_compared(mine: Any, its: Any, kinds: str) -> None:
    assert compare(mine, its) is compare(its, mine) is None

    with pytest.raises(EventUnusable, check=has_code("order-unknown")) as raised:
        BY_VERSION.compare(a_data_event(10), 2, (1, mine), (1, its))

    assert f"its ordering key {[1, mine]!r} cannot be compared with {[1, its]!r}: {kinds}" in raised.value.detail
    assert "right would be all numbers, all digits, all times with a zone" in raised.value.detail
    assert raised.value.eid == "00000000-0000-0000-0000-00000000000a"


def test_keys_of_different_lengths_cannot_be_compared() -> None:
    with pytest.raises(
        EventUnusable, check=has_code("order-unknown"), match="they have 1 and 2 values; right are equally many"
    ):
        BY_VERSION.compare(a_data_event(), 0, (7,), (7, 8))


times_of_a_day = st.builds(
    "2026-01-01{}{:02}:{:02}{}{}".format,
    st.sampled_from("Tt "),
    st.integers(10, 12),
    st.sampled_from([0, 10, 59]),
    st.sampled_from(["", ":00", ":01", ":60", ":00.5", ":00.50", ":00.25"]),
    st.sampled_from(["", "Z", "z", "+00", "+0100", "-01:00", " +0000"]),
)
edges = st.sampled_from(["9", "10", "010", "1a", "²", "2026-01-01T12:10:00x", "2026-13-01T12:00Z"])
values = st.integers(-2, 12) | st.floats(-2, 12) | st.text("019a-", max_size=3) | edges | times_of_a_day


@settings(max_examples=examples(40, 1000))
@given(values, values, values)
def test_values_of_a_kind_have_one_order(a: Any, b: Any, c: Any) -> None:
    ab, bc, ac = compare(a, b), compare(b, c), compare(a, c)

    assert compare(b, a) == (None if ab is None else -ab)
    if ab is not None and bc is not None:
        assert ac is not None
        assert ab * bc < 0 or ac == (ab or bc)
    elif ab is not None or bc is not None:
        assert ac is None


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Keys in two orders of arrival."""
    value = draw(st.sampled_from([values, edges, times_of_a_day]))
    keys = draw(st.lists(st.tuples(st.integers(1, draw(st.integers(1, 2))), value), max_size=5))
    return keys, draw(st.permutations(keys))


@settings(max_examples=examples(25, 1000))
@given(arrivals())
def test_events_are_sorted_into_one_order_or_refused(arrivals: tuple[list[Any], list[Any]]) -> None:
    came, came_otherwise = map(in_one_order, arrivals)

    assert (came is None) == (came_otherwise is None)
    for one, other in zip(came or (), came_otherwise or (), strict=True):
        assert BY_VERSION.compare({}, None, one, other) == 0


def in_one_order(keys: list[Any]) -> list[Any] | None:
    """Return *keys* as events that have them are sorted; None where they are refused."""
    ordering = Ordering(lambda event: event["key"])
    try:
        return [event["key"] for event in ordering.sort(enumerate({"key": key} for key in keys))]
    except EventUnusable:
        return None
