"""When something is to happen: at which of the times that it could."""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from penstock.errors import BadParameter

Times: TypeAlias = Callable[[int], bool]
"""Says of a number, counted from 1, whether it happens that time; the same each time that it is asked."""


def nth(*numbers: int) -> Times:
    """Return that it happens these times, counted from 1.

    >>> [number for number in range(1, 6) if nth(2, 5)(number)]
    [2, 5]
    """
    return frozenset(numbers).__contains__


def every(count: int) -> Times:
    """Return that it happens each time that so many have been.

    Raises:
        BadParameter: *count* is less than 1.

    >>> [number for number in range(1, 7) if every(3)(number)]
    [3, 6]
    """
    if count < 1:
        raise BadParameter(parameter="count", value=count, allowed="1 or more")
    return lambda number: number % count == 0


def by_chance(share: float, seed: int = 0) -> Times:
    """Return that it happens to a *share* of the times, from 0 to 1; the same *seed* makes the same choice.

    Raises:
        BadParameter: *share* is no share.

    >>> [number for number in range(1, 20) if by_chance(0.2, seed=7)(number)]
    [1, 3, 4, 7, 11, 15, 17]
    """
    if not 0 <= share <= 1:
        raise BadParameter(parameter="share", value=share, allowed="from 0 to 1")
    return lambda number: Random(f"{seed}/{number}").random() < share  # noqa: S311 - It is to be the same again.


def always(number: int) -> bool:  # noqa: ARG001 - Whichever.
    """Say that it happens each time."""
    return True


def never(number: int) -> bool:  # noqa: ARG001 - Likewise.
    """Say that it does not happen."""
    return False
