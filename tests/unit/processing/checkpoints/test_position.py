"""What a processor may be moved to."""

import pytest

from penstock.errors import BadParameter
from penstock.processing.checkpoints.position import check_moves, is_before, waits_from
from penstock.processing.engine.item import Position
from penstock.processing.engine.parked import Parked


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


@pytest.mark.parametrize(
    ("since", "position", "expected"),
    [
        (20, 20, (0, 20)),
        (20, 22, (22, 20)),
        (20, 40, (30, 20)),
        ("20:3", "25:4", (25, "20:3")),
        ("20:3", "40:7", (30, "20:3")),
        ("7:20", "7:25", (25, "7:20")),
        ("7:20", "7:40", (30, "7:20")),
        ("7:20", "6:40", (0, "6:40")),
    ],
    ids=repr,
)
def test_a_parked_stream_waits_from_what_comes_first_of_its_event_and_its_tranches_position(
    since: Position, position: Position, expected: tuple[int, Position]
) -> None:
    assert waits_from(Parked("a", "t", 30, 31, 1, 1, "ValueError", "no", since), position) == expected
