"""What it takes to hold an event's texts against patterns is bounded; ordinary patterns do not notice."""

import time
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from penstock.core.matching import MATCH_MAX, MATCHING_MAX, count_name_bytes, most_name_states, most_text_states
from penstock.core.patterns import count_states
from penstock.core.validation import Validator
from penstock.core.walk import Schema

SLOW = "[ab]*a[ab]{990}c"
"""Of its thousand states nearly all are met at once."""
LARGEST = "[ab]*" + "a[ab]{990}" * 9 + "c"
"""The same with as many states as a pattern may have."""
UUID = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
ALNUM = "[a-zA-Z0-9]"
LABEL = f"{ALNUM}(?:[a-zA-Z0-9-]{{0,61}}{ALNUM})?"
EMAIL = rf"^[a-zA-Z0-9.!#$%&'*+/=?^_`{{|}}~-]+@{LABEL}(?:\.{LABEL})*$"


LETTERS = str.maketrans("01", "ab")


def letters(count: int, seed: int = 0) -> str:
    bits = Random(f"{count} {seed}").getrandbits(count)
    return f"{bits:0{count}b}".translate(LETTERS)


def judged(schema: Schema, event: dict[str, Any]) -> str | None:
    """What is wrong with *event*, looked at as a hub does; None: nothing."""
    validator, raw = Validator(schema), msgspec.json.encode(event)
    return None if validator.first_invalid([event], [raw]) is None else validator.why(event)


@pytest.fixture
def patience() -> Iterator[None]:
    """Seconds of work, not of waiting: the machine may be busy."""
    started = time.process_time()
    yield
    assert time.process_time() - started < 15


ONE = {"a": letters(900_000)}
MANY = {f"p{number}": letters(9_000, number) for number in range(99)}
ALL_SLOW = {"additionalProperties": {"pattern": SLOW}}
HOSTILE: dict[str, tuple[Schema, dict[str, Any], str]] = {
    "one text": ({"properties": {"a": {"pattern": SLOW}}}, ONE, "has a text of 900000 bytes, where up to 100300"),
    "the largest pattern": ({"properties": {"a": {"pattern": LARGEST}}}, ONE, "has a text of 900000 bytes"),
    "many texts": ({"additionalProperties": {"not": {"pattern": SLOW}}}, MANY, "has more text than can be held"),
    "many patterns": (
        {"properties": {"a": {"allOf": [{"not": {"pattern": f"{SLOW}{number}"}} for number in range(99)]}}},
        {"a": letters(90_000)},
        "has more text than can be held",
    ),
    "a text in a branch": ({"properties": {"a": {"anyOf": [{"pattern": SLOW}, {}]}}}, ONE, "has a text of 900000"),
    "names": (
        {"patternProperties": {SLOW: {}}},
        {letters(900_000): 1},
        "has members' names of 900000 bytes, where up to 100300",
    ),
    "names of a schema's own": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "propertyNames": {"pattern": SLOW}},
        {letters(900_000): 1},
        "has a text of 900000 bytes",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_would_take_too_long_is_refused_by_name(case: str, patience: None) -> None:
    schema, event, told = HOSTILE[case]

    found = judged(schema, event)

    assert found is not None
    assert found.startswith(f"#: {told}")


def test_what_is_allowed_is_done_in_bounded_time(patience: None) -> None:
    """At the limits, of one text and of all: this is all the work that an event can make."""
    size = MATCH_MAX // count_states(SLOW)
    assert judged({"properties": {"a": {"pattern": SLOW}}}, {"a": letters(size)}) is not None
    event = {f"p{number}": letters(1_000, number) for number in range(MATCHING_MAX // count_states(SLOW) // 1_000)}
    found = judged({"additionalProperties": {"not": {"pattern": SLOW}}}, event)
    assert found is None


ORDINARY: dict[str, tuple[Schema, dict[str, Any]]] = {
    "identifiers": (
        {"properties": {"a": {"items": {"pattern": UUID}}}},
        {"a": ["7b7c7a6e-0000-4000-8000-00000000000f"] * 25_000},
    ),
    "identifiers as names": (
        {"patternProperties": {UUID: {}}, "additionalProperties": False},
        {f"7b7c7a6e-0000-4000-8000-{number:012}": 1 for number in range(22_000)},
    ),
    "addresses": ({"properties": {"a": {"items": {"pattern": EMAIL}}}}, {"a": ["jane.doe@example.org"] * 20_000}),
    "a large text beside": (
        {"properties": {"a": {"pattern": "^.{1,255}$"}, "b": {"type": "string"}}},
        {"a": "short", "b": "x" * 990_000},
    ),
    "a large text of one's own": ({"properties": {"a": {"pattern": "^[a-zA-Z0-9+/]*={0,2}$"}}}, {"a": "x" * 990_000}),
}


@pytest.mark.parametrize("case", ORDINARY)
def test_ordinary_patterns_take_the_largest_events(case: str) -> None:
    assert judged(*ORDINARY[case]) is None


def test_a_large_event_is_told_what_is_wrong_as_any_other() -> None:
    schema = {"properties": {"a": {"pattern": "^.{1,255}$"}}}

    assert judged(schema, {"a": "", "b": "x" * 900_000}) == judged(schema, {"a": ""})
    assert judged(schema, {"a": ""}) == "#/a: string [] does not match pattern ^.{1,255}$"


def test_events_before_and_after_a_large_one_are_judged_as_they_are() -> None:
    validator = Validator(ALL_SLOW)
    good = {"a": "a" * 991 + "c"}
    events = [good, good, {"a": letters(200_000)}, good]
    raws = [msgspec.json.encode(event) for event in events]

    assert validator.first_invalid(events, raws) == 2
    assert validator.first_invalid(events[:2], raws[:2]) is None
    assert "has a text of 200000 bytes" in validator.why(events[2])
    assert validator.first_invalid(events[3:], raws[3:]) is None, "nothing is left of what the large one has spent"


def test_what_one_text_meets_is_summed_up_by_references_and_branches() -> None:
    one = {"pattern": "^abc$"}
    states = count_states("^abc$")
    both = {"definitions": {"x": one}, "properties": {"a": {"allOf": [one, {"$ref": "#/definitions/x"}]}, "b": one}}

    assert 2 * states <= most_text_states(both) <= 2 * states + 1
    assert most_name_states(both) == 0
    assert most_name_states({"items": {"patternProperties": {"^abc$": {}, "^abd$": {}}}}) == 2 * states
    assert most_text_states({"enum": ["a"], "pattern": 5}) == 0


def test_the_bytes_of_names_are_counted_at_every_level() -> None:
    assert count_name_bytes({"a": [{"bc": {"é": 1}}], "d": "efg"}) == 6
