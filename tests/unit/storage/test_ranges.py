from typing import Any

import pytest

from penstock.storage.ranges import read_columns
from penstock.storage.store import Columns, Runs


class Asked:
    """Answers statements by name, and notes which were asked."""

    def __init__(self, **answers: tuple[Any, ...]) -> None:
        self.answers = answers
        self.names: list[str] = []

    def __call__(self, name: str, **_given: Any) -> tuple[Any, ...]:
        self.names.append(name)
        return self.answers[name]


def no_times(_first: int, _last: int) -> Runs:
    raise AssertionError("there is only one time")


def test_what_is_empty_or_the_same_for_all_is_not_read() -> None:
    ask = Asked(columns=(3, b"a\nb\nc", 0, 77, 77))

    assert read_columns(ask, no_times, 9) == Columns(9, 3, b"a\nb\nc", None, None, None, Runs(b"3", b"77"))
    assert ask.names == ["columns"]


def test_what_one_event_has_is_read_of_all() -> None:
    ask = Asked(columns=(2, b"a\nb", 1, 77, 77), columns_sparse=(2, b"k\n\x01", None, None))

    assert read_columns(ask, no_times, 2)[3:6] == (b"k\n\x01", None, None)


def test_times_that_differ_are_asked_for_from_the_first_to_the_last() -> None:
    asked = []

    def times(first: int, last: int) -> Runs:
        asked.append((first, last))
        return Runs(b"1\n2", b"77\n78")

    assert read_columns(Asked(columns=(2, b"a\nb", 0, 77, 78)), times, 2).received == Runs(b"1\n2", b"77\n78")
    assert asked == [(77, 78)]


def test_an_empty_range_has_no_times() -> None:
    columns = read_columns(Asked(columns=(0, None, 0, None, None)), no_times, 9)

    assert columns == Columns(9, 0, b"", None, None, None, Runs(b"", b""))


@pytest.mark.parametrize("sparse", [(0, None, None, None), (1, b"k", None, None)])
def test_rows_that_were_removed_between_two_looks_are_not_counted(sparse: tuple[Any, ...]) -> None:
    """So that the reader notices that the range is not whole."""
    assert read_columns(Asked(columns=(2, b"a\nb", 2, 77, 77), columns_sparse=sparse), no_times, 2).rows == sparse[0]
    assert read_columns(Asked(columns=(2, b"a\nb", 0, 77, 78)), lambda _first, _last: None, 2).rows == 0
