"""The LRU cache of a process: values of a limited size together, each made once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from penstock.schema.lru_cache import LruCache


def made(shelf: LruCache[str], *keys: str, size: int = 1) -> list[str]:
    """Use the values of *keys* and return the keys whose values had to be made."""
    asked: list[str] = []

    for key in keys:

        def make(key: str = key) -> str:
            asked.append(key)
            return key.upper()

        assert shelf.get(key, size, make) == key.upper()
    return asked


def test_value_is_made_once() -> None:
    shelf = LruCache[str](2)

    assert made(shelf, "a", "b", "a", "b") == ["a", "b"]


def test_least_recently_used_value_is_removed_first() -> None:
    shelf = LruCache[str](3)

    made(shelf, "a", "b", "c", "a", "d")

    assert made(shelf, "d", "a", "c") == []
    assert made(shelf, "b") == ["b"]


def test_search_counts_as_use_and_makes_no_value() -> None:
    shelf = LruCache[str](2)
    assert shelf.find("a") is None

    made(shelf, "a", "b")
    assert shelf.find("a") == "A"

    assert made(shelf, "c", "a") == ["c"]
    assert shelf.find("b") is None


def test_room_is_a_sum_of_sizes() -> None:
    shelf = LruCache[str](10)
    made(shelf, "a", "b", size=4)
    made(shelf, "large", size=7)

    assert made(shelf, "large") == []
    assert made(shelf, "a", size=4) == ["a"]


def test_value_larger_than_the_room_is_kept_alone() -> None:
    shelf = LruCache[str](10)

    made(shelf, "a")
    made(shelf, "huge", size=11)

    assert made(shelf, "huge") == []
    assert made(shelf, "a") == ["a"]


def test_value_that_could_not_be_made_is_made_at_the_next_use() -> None:
    shelf = LruCache[str](10)
    with pytest.raises(ZeroDivisionError):
        shelf.get("a", 1, lambda: str(1 // 0))

    assert made(shelf, "a") == ["a"]


def test_value_that_two_threads_make_takes_its_room_once() -> None:
    shelf = LruCache[str](2)
    both = Barrier(2)

    def make() -> str:
        both.wait(60)
        return "A"

    with ThreadPoolExecutor(2) as threads:
        assert [each.result() for each in [threads.submit(shelf.get, "a", 1, make) for _ in range(2)]] == ["A", "A"]

    made(shelf, "b")
    assert made(shelf, "a", "b") == []
