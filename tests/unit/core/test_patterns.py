"""Patterns that could take for ever, or all memory, are kept out by name."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.core.patterns import NAMES_MAX, check_patterns
from penstock.errors import InvalidEventType

GOOD = [
    "", "^(a+)+$", "(x+x+)+y", "(a|aa)*b", "^[0-9a-f]{8}$", "^.{0,1000}$", "^\\p{L}+$", "[^\\x00-\\x1f]", "(?i)a",
]  # fmt: skip
BAD = ["(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(a)\\1", "(?P<n>a)(?P=n)", "(", "[", "a{2000}", "*", "(?>a)", "a++"]


@pytest.mark.parametrize("pattern", GOOD)
def test_what_takes_a_time_that_grows_with_the_text_is_taken(pattern: str) -> None:
    check_patterns({"properties": {"a": {"pattern": pattern}}, "patternProperties": {pattern: {}}})


@pytest.mark.parametrize("pattern", BAD)
@pytest.mark.parametrize("place", ["pattern", "patternProperties"])
def test_what_re2_does_not_take_is_refused_by_its_place(pattern: str, place: str, capfd: Any) -> None:
    node = {place: pattern if place == "pattern" else {pattern: {}}}

    with pytest.raises(InvalidEventType, match=r"at #/properties/a~1b/items that is not taken"):
        check_patterns({"properties": {"a/b": {"items": node}}})

    assert capfd.readouterr().err == "", "what anybody may hand in fills the log"


@pytest.mark.parametrize(
    ("pattern", "is_lacking"),
    [
        *((each, True) for each in ["(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(a)\\1", "(?P<n>a)(?P=n)", "(a)\\k<1>"]),
        *((each, False) for each in ["a{2000}", "(", "[", "*", "a++", "(?>a)", "\\u0041", "\\cA"]),
    ],
)
def test_what_re2_lacks_is_told_where_it_is_the_reason(pattern: str, is_lacking: bool) -> None:
    with pytest.raises(InvalidEventType) as caught:
        check_patterns({"pattern": pattern})

    assert caught.value.detail.endswith(" (RE2 has no look-around and no back-references)") is is_lacking


def test_a_pattern_has_a_size() -> None:
    check_patterns({"pattern": "a{1000}" * 9})
    with pytest.raises(InvalidEventType, match=r"at # that is too large, .*maxLength"):
        check_patterns({"pattern": "a{1000}" * 10})


def test_patterns_have_a_size_together() -> None:
    def schema(count: int) -> dict[str, Any]:
        return {"properties": {f"p{number}": {"pattern": f"^.{{1,990}}{number}$"} for number in range(count)}}

    check_patterns(schema(100))
    with pytest.raises(InvalidEventType, match="too large"):
        check_patterns(schema(200))


def test_names_are_held_against_so_many_patterns() -> None:
    check_patterns({"items": {"patternProperties": {f"^{number}": {} for number in range(NAMES_MAX)}}})
    with pytest.raises(InvalidEventType, match="has 101 patternProperties at #/items, where 100 are allowed"):
        check_patterns({"items": {"patternProperties": {f"^{number}": {} for number in range(NAMES_MAX + 1)}}})


@pytest.fixture
def patience() -> Iterator[None]:
    """Seconds of work, not of waiting: the machine may be busy."""
    started = time.process_time()
    yield
    assert time.process_time() - started < 5


def test_a_megabyte_of_patterns_is_looked_at_in_bounded_time(patience: None) -> None:
    check_patterns({"properties": {f"p{number}": {"pattern": f"^[a-z]{{3}}{number}$"} for number in range(25_000)}})
    many = {f"p{number}": {"pattern": f"[\\p{{L}}]{{4}}{number}"} for number in range(25_000)}
    with pytest.raises(InvalidEventType, match="for all patterns"):
        check_patterns({"properties": many})


def test_what_is_no_pattern_is_not_looked_at() -> None:
    check_patterns({"pattern": 5, "patternProperties": [], "enum": ["(?=a)"], "properties": {"pattern": {}}})
