"""What was wanted lately is kept, as far as there is room."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from penstock.core.shelf import Shelf


def made(shelf: Shelf[str], *keys: str, size: int = 1) -> list[str]:
    """Ask for *keys* and return those that had to be made."""
    asked: list[str] = []

    for key in keys:

        def make(key: str = key) -> str:
            asked.append(key)
            return key.upper()

        assert shelf.get(key, size, make) == key.upper()
    return asked


def test_what_was_made_is_made_once() -> None:
    shelf = Shelf[str](2)

    assert made(shelf, "a", "b", "a", "b") == ["a", "b"]


def test_what_was_not_wanted_for_longest_goes_first() -> None:
    shelf = Shelf[str](3)

    made(shelf, "a", "b", "c", "a", "d")

    assert made(shelf, "d", "a", "c") == []
    assert made(shelf, "b") == ["b"]


def test_what_is_looked_for_is_wanted_and_not_made() -> None:
    shelf = Shelf[str](2)
    assert shelf.find("a") is None

    made(shelf, "a", "b")
    assert shelf.find("a") == "A"

    assert made(shelf, "c", "a") == ["c"]
    assert shelf.find("b") is None


def test_room_is_a_sum_of_sizes() -> None:
    shelf = Shelf[str](10)
    made(shelf, "a", "b", size=4)
    made(shelf, "large", size=7)

    assert made(shelf, "large") == []
    assert made(shelf, "a", size=4) == ["a"]


def test_what_is_larger_than_the_room_is_kept_alone() -> None:
    shelf = Shelf[str](10)

    made(shelf, "a")
    made(shelf, "huge", size=11)

    assert made(shelf, "huge") == []
    assert made(shelf, "a") == ["a"]


def test_what_could_not_be_made_is_tried_again() -> None:
    shelf = Shelf[str](10)
    with pytest.raises(ZeroDivisionError):
        shelf.get("a", 1, lambda: str(1 // 0))

    assert made(shelf, "a") == ["a"]


def test_two_that_make_the_same_take_its_room_once() -> None:
    shelf = Shelf[str](2)
    both = Barrier(2)

    def make() -> str:
        both.wait(60)
        return "A"

    with ThreadPoolExecutor(2) as threads:
        assert [each.result() for each in [threads.submit(shelf.get, "a", 1, make) for _ in range(2)]] == ["A", "A"]

    made(shelf, "b")
    assert made(shelf, "a", "b") == []
