from array import array
from typing import Any

import pytest

from penstock.storage.log.events import ReceiveTimes, StoredColumns, read_stored_columns

SIZES = array("i", [1, 1]).tobytes()
AT_77 = ReceiveTimes(b"2", b"77")


class Asked:
    """Answers statements by name, and notes which were asked."""

    def __init__(self, **answers: tuple[Any, ...]) -> None:
        self.answers = answers
        self.names: list[str] = []

    def __call__(self, name: str, **_given: Any) -> tuple[Any, ...]:
        self.names.append(name)
        return self.answers[name]


def test_column_without_values_is_not_read() -> None:
    ask = Asked()

    columns = read_stored_columns(ask, 9, b"ab", SIZES, AT_77, keyed=False, sparse=False)

    assert columns == StoredColumns(9, 2, b"ab", SIZES, None, None, None, AT_77)
    assert not ask.names


@pytest.mark.parametrize("keyed", [True, False])
def test_column_with_one_value_is_read_for_all_events(*, keyed: bool) -> None:
    ask = Asked(columns_sparse=(2, b"k\n\x01", None, None))

    columns = read_stored_columns(ask, 2, b"ab", SIZES, AT_77, keyed=keyed, sparse=True)

    assert (columns.rows, columns.keys, columns.kinds, columns.headers) == (2, b"k\n\x01", None, None)


def test_keys_are_read_alone_if_there_are_only_keys() -> None:
    columns = read_stored_columns(Asked(columns_keys=(2, b"k\n\x01")), 2, b"ab", SIZES, AT_77, keyed=True, sparse=False)

    assert (columns.rows, columns.keys, columns.kinds, columns.headers) == (2, b"k\n\x01", None, None)


@pytest.mark.parametrize("sparse", [(0, None, None, None), (1, b"k", None, None)])
def test_rows_removed_between_two_statements_are_not_counted(sparse: tuple[Any, ...]) -> None:
    """So that the reader notices that the range is not whole."""
    ask = Asked(columns_sparse=sparse, columns_keys=sparse[:2])
    assert read_stored_columns(ask, 2, b"ab", SIZES, AT_77, keyed=True, sparse=True).rows == sparse[0]
    assert read_stored_columns(ask, 2, b"ab", SIZES, AT_77, keyed=True, sparse=False).rows == sparse[0]
    assert read_stored_columns(ask, 2, b"ab", SIZES, None, keyed=False, sparse=False).rows == 0
