"""Which values of a keyword say nothing, and which let more pass; test_evolution.py holds them against a validator."""

from typing import Any

import pytest

from penstock.core.attribute import (
    ATTRIBUTES,
    attribute,
    has_all_types,
    lets_all_pass,
    suits_consumers,
    types_of,
    without_neutral,
)
from penstock.core.walk import MISSING


@pytest.mark.parametrize(
    ("name", "neutral", "other"),
    [
        *((name, value, 1) for name in ("minLength", "minItems", "minProperties") for value in (0, 0.0)),
        ("uniqueItems", False, True),
        ("exclusiveMinimum", False, 0),
        ("exclusiveMaximum", False, 0),
        ("not", False, {}),
        ("then", {}, False),
        ("else", True, False),
        ("propertyNames", True, False),
    ],
)
def test_some_values_say_no_more_than_none(name: str, neutral: Any, other: Any) -> None:
    assert attribute({name: neutral}, name) is attribute({}, name) is MISSING
    assert without_neutral({name: neutral, "type": "string"}) == {"type": "string"}
    assert attribute({name: other}, name) == other
    assert without_neutral({name: other}) == {name: other}


@pytest.mark.parametrize("name", ["maximum", "maxLength", "minimum", "const", "if", "contains"])
def test_most_keywords_always_say_something(name: str) -> None:
    assert [attribute({name: value}, name) for value in (0, False, {})] == [0, False, {}]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_what_is_taken_away_lets_more_pass_and_what_is_given_does_not(name: str) -> None:
    assert lets_all_pass(name, 1, MISSING)
    assert not lets_all_pass(name, MISSING, 1)


@pytest.mark.parametrize(
    ("name", "tight", "loose"),
    [
        *((name, 2, 1) for name in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")),
        *((name, 1.5, 2) for name in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")),
        ("multipleOf", 6, 3),
    ],
)
def test_a_bound_that_is_looser_lets_more_pass(name: str, tight: Any, loose: Any) -> None:
    assert lets_all_pass(name, tight, loose)
    assert not lets_all_pass(name, loose, tight)
    assert (suits_consumers(name, loose, tight), suits_consumers(name, tight, loose)) == (True, False)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("pattern", "a", "b"),
        ("exclusiveMinimum", True, 0),
        ("exclusiveMaximum", 0, True),
        ("multipleOf", 0.3, 0.1),
        ("const", 2, 1),
        ("minimum", "2", 1),
    ],
)
def test_of_what_cannot_be_compared_nothing_is_certain(name: str, old: Any, new: Any) -> None:
    assert not lets_all_pass(name, old, new)
    assert not suits_consumers(name, new, old)


def test_what_says_something_of_members_may_depend_on_dropped_ones() -> None:
    assert not any(suits_consumers(name, MISSING, {"a": 1}) for name in ("const", "not", "contains", "if"))


def test_an_integer_is_a_number_and_no_number_an_integer() -> None:
    integer, number, several = (types_of({"type": each}) for each in ("integer", "number", ["number", "null"]))
    assert integer
    assert number
    assert several

    assert has_all_types(number, integer)
    assert has_all_types(several, integer)
    assert not has_all_types(integer, number)
    assert not has_all_types(number, several)
    assert types_of({"minLength": 1}) is None
