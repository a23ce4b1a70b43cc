import pytest

from penstock.errors import CheckpointMoved
from penstock.processing.checkpoints.checkpoint import Advance, Move
from penstock.processing.checkpoints.memory import MemoryCheckpoints


def test_positions_are_kept_where_they_are_thought_to_be() -> None:
    checkpoints = MemoryCheckpoints("orders")
    checkpoints.commit(Advance({"a": Move(None, 3), "b": Move(None, "x")}))
    checkpoints.commit(Advance({"a": Move(3, 5)}))

    assert checkpoints.positions() == {"a": 5, "b": "x"}


def test_of_two_owners_one_is_told_and_nothing_is_half_done() -> None:
    checkpoints = MemoryCheckpoints("orders")
    checkpoints.commit(Advance({"a": Move(None, 3)}))

    with pytest.raises(CheckpointMoved, match="orders: the checkpoint of 'a' is at 3; this processor has left it at 2"):
        checkpoints.commit(Advance({"b": Move(None, 1), "a": Move(2, 4)}))
    assert checkpoints.positions() == {"a": 3}
