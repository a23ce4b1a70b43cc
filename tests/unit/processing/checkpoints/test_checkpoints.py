"""Checkpoints: positions are kept under an owner, moved and compared, and streams kept by name."""

import pytest
from hypothesis import example, given, strategies

from penstock.errors import BadParameter, CheckpointMoved
from penstock.processing.checkpoints.checkpoint import Advance, Move
from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.checkpoints.position import check_moves, is_before, waits_from
from penstock.processing.checkpoints.stream_name import digest, kept, name_of
from penstock.processing.engine.item import Position
from penstock.processing.engine.parked import Parked


def test_positions_are_stored_where_they_are_expected() -> None:
    checkpoints = MemoryCheckpoints("orders")
    checkpoints.commit(Advance({"a": Move(None, 3), "b": Move(None, "x")}))
    checkpoints.commit(Advance({"a": Move(3, 5)}))

    assert checkpoints.positions() == {"a": 5, "b": "x"}


def test_second_owner_is_refused_and_nothing_is_half_done() -> None:
    checkpoints = MemoryCheckpoints("orders")
    checkpoints.commit(Advance({"a": Move(None, 3)}))

    with pytest.raises(CheckpointMoved, match="orders: the checkpoint of 'a' is at 3; this processor has left it at 2"):
        checkpoints.commit(Advance({"b": Move(None, 1), "a": Move(2, 4)}))
    assert checkpoints.positions() == {"a": 3}


def test_position_moves_to_positions_of_its_form_alone() -> None:
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
def test_parked_stream_waits_from_the_earlier_of_its_event_and_its_tranches_position(
    since: Position, position: Position, expected: tuple[int, Position]
) -> None:
    assert waits_from(Parked("a", "t", 30, 31, 1, 1, "ValueError", "no", since), position) == expected


ANY = strategies.text(strategies.characters())  # Lone surrogates, too.


@given(ANY)
@example("a\0b")
@example("\ud800")
@example("\\0000")
@example("\\005c0000")
def test_kept_name_is_read_back(name: str) -> None:
    assert name_of(kept(name)) == name
    assert "\0" not in kept(name)
    assert kept(name).encode().decode() == kept(name)


def test_ordinary_name_is_kept_as_it_is() -> None:
    assert kept("order.placed-é 🚚\n") == "order.placed-é 🚚\n"


@given(ANY, ANY)
def test_digest_stands_for_one_name(one: str, other: str) -> None:
    assert (digest(one) == digest(other)) == (one == other)
    assert len(digest(one)) == 64
