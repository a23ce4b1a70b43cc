"""When something is to happen: at which of the times that it could."""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from penstock.processing.parameters import check_count, check_function, check_number, check_whole

Times: TypeAlias = Callable[[int], bool]
"""Says of a number, counted from 1, whether it happens that time; the same each time that it is asked."""


def nth(*numbers: int) -> Times:
    """Return that it happens these times, counted from 1.

    Raises:
        BadParameter: one is no whole number from 1.

    >>> [number for number in range(1, 6) if nth(2, 5)(number)]
    [2, 5]
    """
    for number in numbers:
        check_count("numbers", number)
    return frozenset(numbers).__contains__


def every(count: int) -> Times:
    """Return the times `count`, `2 * count`, `3 * count` and so on.

    Raises:
        BadParameter: *count* is no whole number from 1.

    >>> [number for number in range(1, 7) if every(3)(number)]
    [3, 6]
    """
    check_count("count", count)
    return lambda number: number % count == 0


def by_chance(share: float, seed: int = 0) -> Times:
    """Return that it happens to a *share* of the times, from 0 to 1; the same *seed* makes the same choice.

    Raises:
        BadParameter: *share* is no share, or *seed* no whole number.

    >>> [number for number in range(1, 20) if by_chance(0.2, seed=7)(number)]
    [1, 3, 4, 7, 11, 15, 17]
    """
    check_number("share", share, least=0, most=1, allowed="from 0 to 1")
    check_whole("seed", seed)
    return lambda number: Random(f"{seed}/{number}").random() < share  # noqa: S311 - It is to be the same again.


def check_times(parameter: str, times: Times) -> None:
    """Raise BadParameter unless *times* says when something is to happen, as far as that can be told."""
    check_function(parameter, times, "number")


def always(number: int) -> bool:  # noqa: ARG001 - Whichever.
    """Say that it happens each time."""
    return True


def never(number: int) -> bool:  # noqa: ARG001 - Likewise.
    """Say that it does not happen."""
    return False
