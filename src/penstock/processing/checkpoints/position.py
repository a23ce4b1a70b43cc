"""What a position can be, of which form it is, and which of two lies before the other."""

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.errors import BadParameter
from penstock.processing.engine.item import Position
from penstock.processing.engine.parking import Parked
from penstock.processing.parameters import check_kind

_NUMBERS: Final = re.compile("[0-9]+")
_OF_FEED: Final = re.compile(r"[0-9]+:[0-9]+")


def check_moves(positions: Mapping[str, Position], before: Mapping[str, Position], *, adds: bool) -> None:
    """Raise BadParameter unless a processor that stands at *before* can be moved to *positions*.

    Each is a position, of a tranche that it has, or is given where that *adds*, and of the form of the one before.
    """
    check_kind("positions", positions, Mapping, "positions by tranche, such as {'order.placed/0': '1:17'}")
    for tranche, position in positions.items():
        _check_position(tranche, position)
        if tranche not in before and not adds:
            raise BadParameter(parameter="tranche", value=tranche, allowed=f"one that has a position: {sorted(before)}")
        if tranche in before and _form(position) != _form(before[tranche]):
            allowed = f"{_form(before[tranche])}, as {before[tranche]!r} is, which stands at {tranche}"
            raise BadParameter(parameter="position", value=position, allowed=allowed)


def is_before(position: Position, other: Position) -> bool:
    """Tell whether a position lies before another of its tranche: by the numbers that it is made of.

    >>> is_before("1:9", "1:10"), is_before(3, 3), is_before("2:0", "1:10")
    (True, False, False)
    """
    return _numbers(position) < _numbers(other)


def waits_from(parked: Parked, position: Position) -> tuple[int, Position]:
    """Return from which index on a parked stream waits, and from where that is read, once its tranche is at *position*.

    What the stream has behind *position* comes again, as that of all others does; what waits of it waits on.

    >>> parked = Parked("a", "t", 7, 9, 2, 1, "ValueError", "no", since="1:3")
    >>> waits_from(parked, "1:2"), waits_from(parked, "1:5"), waits_from(parked, "1:8")
    ((0, '1:2'), (5, '1:3'), (7, '1:3'))
    """
    if not is_before(parked.since, position):
        return 0, position
    # Of what a position is made of, what is not the same in all of a tranche counts as its indices do.
    told = zip(_numbers(parked.since), _numbers(position), strict=False)
    first = next((here for since, here in told if since != here), parked.index)
    return min(first, parked.index), parked.since


def _numbers(position: Position) -> list[int]:
    return [*map(int, _NUMBERS.findall(str(position)))]


def _check_position(tranche: str, position: Any) -> None:
    # They are kept as texts: whatever else is given would become one that no source can read.
    is_number = type(position) is int and position >= 0
    if not is_number and not (isinstance(position, str) and position):
        allowed = f"a whole number from 0, or a text of at least one character, for {tranche}"
        raise BadParameter(parameter="position", value=position, allowed=allowed)


def _form(position: Position) -> str:
    if isinstance(position, int) or position.isdecimal():
        return "a whole number"
    return "EPOCH:OFFSET" if _OF_FEED.fullmatch(position) else "a text of the source's own"
