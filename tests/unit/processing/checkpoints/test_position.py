"""What a processor may be moved to."""

import pytest

from penstock.errors import BadParameter
from penstock.processing.checkpoints.position import check_moves, is_before


def test_positions_go_where_others_of_their_form_stand() -> None:
    before = {"a": 30, "b": "1:30", "c": "part-7"}
    check_moves({"a": 0, "b": "2:0", "c": "part-1"}, before, adds=False)
    check_moves({"a": "7"}, before, adds=False)
    check_moves({"d": "1:0"}, before, adds=True)
    for tranche, position in {"a": "1:0", "b": 3, "c": 3, "d": 1}.items():
        with pytest.raises(BadParameter):
            check_moves({tranche: position}, before, adds=False)


def test_positions_are_compared_by_their_numbers() -> None:
    assert is_before("1:9", "1:10")
    assert not is_before("2:0", "1:10")
    assert not is_before(3, 3)
