"""Ordering keys: what says of two events of one entity or process which is the later.

Guideline "Provide a means for explicit event ordering": a version or a counter that grows with every event.
"""

import re
from collections.abc import Iterable
from datetime import date
from functools import cmp_to_key, lru_cache
from typing import Any, Final, TypeVar

from penstock.processing.event import body, unplaced
from penstock.processing.fields import Fields, Reader, Values

E = TypeVar("E")

_KEY: Final = ((int, float, str), "a number or a text")
_EXACT_MAX: Final = 2**53
"""Beyond it, what JSON libraries make of a number with a point or an exponent is no longer each number of its own."""
_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


class Ordering:
    """The order of an event type's events.

    Args:
        fields: The fields of the ordering key, the first of them the weightiest.
        event_type: The event type's name, for errors.
    """

    def __init__(self, fields: Fields, event_type: str | None = None) -> None:
        self._reader = Reader(fields, _KEY, "order_by")
        self._event_type = event_type

    def key(self, event: Any, whole: Any, index: int) -> Values:
        """Return the ordering key of *event*, whose `body` is *whole*.

        Raises:
            OrderUnknown: it is missing, neither number nor text, or a number that is not told exactly.
        """
        key = self._reader.read(event, whole, index, self._event_type)
        for value in key:
            if type(value) is float and not abs(value) < _EXACT_MAX:  # NaN, too, is not less than anything.
                reason = f"{value!r} is not told exactly; a whole number without point or exponent would be"
                raise unplaced(event, index, self._event_type, reason)
        return key

    def compare(self, event: Any, index: int | None, key: Values, other: Values) -> int:
        """Return whether *key*, that of *event*, is earlier than (-1), equal to (0) or later than (1) *other*.

        Raises:
            OrderUnknown: they cannot be compared, as a number and a text.
        """
        if len(key) == len(other):
            for mine, its in zip(key, other, strict=True):
                if isinstance(mine, str) != isinstance(its, str):
                    break
                if found := compare(mine, its):
                    return found
            else:
                return 0
        reason = f"its ordering key {list(key)!r} cannot be compared with {list(other)!r}"
        raise unplaced(event, index, self._event_type, reason)

    def sort(self, events: Iterable[tuple[int, E]]) -> list[E]:
        """Return *events*, given with their places in the batch, by ordering key; those with equal ones as they came.

        Raises:
            OrderUnknown: as `key` and `compare`.
        """
        keyed = [(self.key(event, body(event), index), index, event) for index, event in events]

        def order(one: tuple[Values, int, E], other: tuple[Values, int, E]) -> int:
            return self.compare(one[2], one[1], one[0], other[0])

        return [event for _, _, event in sorted(keyed, key=cmp_to_key(order))]


def compare(one: Any, other: Any) -> int:
    """Return which of two numbers, or of two texts, is the later: -1, 0 or 1.

    Texts of digits alone are compared as the numbers that they are, times with a zone (RFC 3339) as the moments that
    they are, however they are written; all other texts letter by letter.

    >>> compare(9, 10), compare("9", "10"), compare("a9", "a10")
    (-1, -1, 1)
    >>> compare("2024-05-01T10:00:00.5Z", "2024-05-01T10:00:00Z")
    1
    >>> compare("2024-05-01T10:00:00+02:00", "2024-05-01T08:00:00Z")
    0
    """
    if isinstance(one, str) and one != other:
        if one.isdecimal() and other.isdecimal() and (one + other).isascii():
            one, other = _digits(one), _digits(other)
        elif (moment := _moment(one)) and (its := _moment(other)):
            one, other = moment, its
    return int(one > other) - int(one < other)


def _digits(text: str) -> tuple[int, str]:
    plain = text.lstrip("0")
    return len(plain), plain


@lru_cache(maxsize=4_096)
def _moment(text: str) -> tuple[int, str] | None:
    """Return the second that a time is in, and the digits of its fraction; None where it is none."""
    if not (found := _TIME.fullmatch(text)):
        return None
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = found.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal()
    except ValueError:
        return None
    east = (int(hours) * 60 + int(minutes)) * (-1 if sign == "-" else 1) if sign else 0
    seconds = days * 86_400 + (int(hour) * 60 + int(minute) - east) * 60 + int(second)
    return seconds, (fraction or "").rstrip("0")
