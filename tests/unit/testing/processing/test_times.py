import pytest

from penstock.errors import BadParameter
from penstock.testing.processing import always, by_chance, every, never, nth


def test_every_nth_always_and_never_choose_their_calls() -> None:
    assert [number for number in range(1, 10) if every(4)(number)] == [4, 8]
    assert [number for number in range(1, 10) if nth(1, 9)(number)] == [1, 9]
    assert all(map(always, range(1, 5)))
    assert not any(map(never, range(1, 5)))


def test_by_chance_chooses_by_its_seed() -> None:
    def chosen(seed: int) -> list[int]:
        return [number for number in range(1, 1001) if by_chance(0.2, seed)(number)]

    assert chosen(1) == chosen(1) != chosen(2)
    assert 150 < len(chosen(1)) < 250
    assert not any(map(by_chance(0), range(1, 100)))
    assert all(map(by_chance(1), range(1, 100)))


def test_impossible_count_and_share_are_refused() -> None:
    with pytest.raises(BadParameter, match="count is 0; allowed: a whole number from 1"):
        every(0)
    with pytest.raises(BadParameter, match=r"share is 1.5; allowed: from 0 to 1"):
        by_chance(1.5)
