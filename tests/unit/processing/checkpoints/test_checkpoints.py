"""Checkpoints: positions are kept under an owner, moved and compared, and streams kept by name."""

from typing import Any

import pytest
from hypothesis import example, given, strategies

from penstock.core.groups.parking import find_waiting, is_before
from penstock.errors import BadParameter
from penstock.processing.checkpoints.checkpoint import check_moves, decode_name, digest, encode_name
from penstock.processing.engine.tranche import Position


def test_position_moves_to_positions_of_its_form() -> None:
    before = {"a": 30, "b": "1:30", "c": "part-7"}
    check_moves({"a": 0, "b": "2:0", "c": "part-1"}, before, adds=False)
    check_moves({"a": "7"}, before, adds=False)
    check_moves({"d": "1:0"}, before, adds=True)


@pytest.mark.parametrize(
    ("before", "position", "told"),
    [
        *((before, wrong, r"a whole number from 0, or a text of at least one character, for t")
          for before in (None, 30) for wrong in (None, True, 1.5, -1, "", [1])),
        (30, "x", "a whole number, as 30 is, which stands at t"),
        (30, "1:7", "a whole number, as 30 is"),
        ("1:30", 7, "EPOCH:OFFSET, as '1:30' is"),
        ("1:30", "7", "EPOCH:OFFSET, as '1:30' is"),
        ("abc", 7, "a text of the source's own, as 'abc' is"),
        (None, 7, r"one that has a position: \[\]"),
    ],
    ids=lambda given: repr(given)[:20],
)  # fmt: skip
def test_position_of_another_form_is_refused(before: Position | None, position: Any, told: str) -> None:
    kept = {} if before is None else {"t": before}
    with pytest.raises(BadParameter, match=f"(position|tranche) (is missing|is .*); allowed: {told}"):
        check_moves({"t": position}, kept, adds=False)


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
    assert find_waiting(30, since, position) == expected


ANY = strategies.text(strategies.characters())  # Lone surrogates, too.


@given(ANY)
@example("a\0b")
@example("\ud800")
@example("\\0000")
@example("\\005c0000")
def test_kept_name_is_read_back(name: str) -> None:
    assert decode_name(encode_name(name)) == name
    assert "\0" not in encode_name(name)
    assert encode_name(name).encode().decode() == encode_name(name)


def test_ordinary_name_is_kept_as_it_is() -> None:
    assert encode_name("order.placed-é 🚚\n") == "order.placed-é 🚚\n"


@given(ANY, ANY)
def test_digest_stands_for_one_name(one: str, other: str) -> None:
    assert (digest(one) == digest(other)) == (one == other)
    assert len(digest(one)) == 64
