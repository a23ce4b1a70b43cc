"""When two values of JSON are equal."""

from typing import Any

import pytest

from penstock.core.sameness import key_of, same


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (0, None, False),
        ("1", 1, False),
        ([], {}, False),
        ([1, 2], [2, 1], False),
        ({"a": 1, "b": [True]}, {"b": [True], "a": 1.0}, True),
        ({"a": [1]}, {"a": [True]}, False),
        ({"a": None}, {}, False),
        ([False, 5], 5, False),
    ],
    ids=repr,
)
def test_values_are_equal_as_json_says(one: Any, other: Any, equal: bool) -> None:
    assert same(one, other) is same(other, one) is equal
    assert len({key_of(one), key_of(other)}) == (1 if equal else 2)
