from array import array
from typing import Any

import pytest

from penstock.storage.log.events import ReceiveTimes
from penstock.storage.sqlite.log.events import _make_columns, _read_sparse_columns

SIZES = array("i", [1, 1]).tobytes()
AT_77 = ReceiveTimes(b"2", b"77")


@pytest.mark.parametrize("left", [(0, None, None, None), (1, b"k", None, None)], ids=["none", "one"])
def test_rows_removed_between_two_statements_are_not_counted(left: tuple[Any, ...]) -> None:
    """So that the reader notices that the range is not whole."""

    def ask(name: str, **_given: Any) -> tuple[Any, ...]:
        assert name == "columns_sparse"
        return left

    assert _read_sparse_columns(ask, _make_columns(2, b"ab", SIZES, b"k", AT_77)).rows == left[0]
    assert _make_columns(2, b"ab", SIZES, None, None).rows == 0
