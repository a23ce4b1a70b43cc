"""Ordering keys: what says of two events of one entity or process which is the later.

Guideline "Provide a means for explicit event ordering": a version or a counter that grows with every event.
"""

import re
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from functools import cmp_to_key, lru_cache
from typing import Any, Final, TypeVar

from penstock.errors import EventUnusable
from penstock.processing.event import body, unplaced
from penstock.processing.fields import FieldReader, Fields, Values

E = TypeVar("E")

_KEY: Final = ((int, float, str), "a number or a text")
_EXACT_MAX: Final = 2**53
"""Beyond it, what JSON libraries make of a number with a point or an exponent is no longer each number of its own."""
_RIGHT: Final = (
    "right would be all numbers, all digits, all times with a zone (2026-01-01T12:00:00Z), or all other texts"
)
_MOMENT: Final = re.compile(
    r"""
    (?P<year>\d{4}) (?P<dash>-?) (?P<month>\d\d) (?P=dash) (?P<day>\d\d) [Tt\ ]
    (?P<hour>[01]\d|2[0-3]) (?P<colon>:?) (?P<minute>[0-5]\d)
    (?: (?P=colon) (?P<second>[0-5]\d|60) (?:[.,](?P<fraction>\d+))? )?
    \ ? (?: [Zz] | (?P<sign>[+-]) (?P<hours>[01]\d|2[0-3]) (?: :?(?P<minutes>[0-5]\d) )? )
    """,
    re.ASCII | re.VERBOSE,
)


class Ordering:
    """The order of an event type's events.

    Args:
        fields: The fields of the ordering key, the first of them the weightiest.
        event_type: The event type's name, for errors.
    """

    def __init__(self, fields: Fields, event_type: str | None = None) -> None:
        self._reader = FieldReader(fields, _KEY, "order_by")
        self._event_type = event_type

    def key(self, event: Any, whole: Any, index: int) -> Values:
        """Return the ordering key of *event*, whose `body` is *whole*.

        Raises:
            EventUnusable: it is missing, neither number nor text, or a number that is not told exactly.
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
            EventUnusable: they cannot be compared: their values are of different kinds, or not equally many.
        """
        if len(key) != len(other):
            wrong = f"they have {len(key)} and {len(other)} values; right are equally many"
            raise self._incomparable(event, index, key, other, wrong)
        for mine, its in zip(key, other, strict=True):
            found = compare(mine, its)
            if found is None:
                wrong = f"{mine!r} is {_read(mine)[0]}, {its!r} {_read(its)[0]}; {_RIGHT}"
                raise self._incomparable(event, index, key, other, wrong)
            if found:
                return found
        return 0

    def _incomparable(self, event: Any, index: int | None, key: Values, other: Values, wrong: str) -> EventUnusable:
        reason = f"its ordering key {list(key)!r} cannot be compared with {list(other)!r}: {wrong}"
        return unplaced(event, index, self._event_type, reason)

    def sort(self, events: Iterable[tuple[int, E]]) -> list[E]:
        """Return *events*, given with their places in the batch, by ordering key; those with equal ones as they came.

        Raises:
            EventUnusable: as `key` and `compare`.
        """
        keyed = [(self.key(event, body(event), index), index, event) for index, event in events]

        def order(one: tuple[Values, int, E], other: tuple[Values, int, E]) -> int:
            return self.compare(one[2], one[1], one[0], other[0])

        return [event for _, _, event in sorted(keyed, key=cmp_to_key(order))]


def compare(one: Any, other: Any) -> int | None:
    """Return which of two values is the later: -1, 0 or 1; None where they are of different kinds.

    There are four kinds, and in each one order of all its values: numbers; texts of digits alone, which are compared as
    the numbers that they are; times with a zone, as the moments that they are; and all other texts, letter by letter,
    by code points. Between kinds there is no order: with any, "10", "1a" and "9" would each come before the next.

    A time is read as ISO 8601 writes it: with T, t or a space before the hour, with or without seconds and their
    fraction, and with Z, z, +02, +0200 or +02:00 for the zone.

    >>> compare(9, 10), compare("9", "10"), compare("a9", "a10"), compare("9", "a10")
    (-1, -1, 1, None)
    >>> compare("2024-05-01T10:00:00.5Z", "2024-05-01T10:00Z")
    1
    >>> compare("2024-05-01T10:00:00+0200", "2024-05-01T08:00:00Z")
    0
    """
    (kind, mine), (its_kind, its) = _read(one), _read(other)
    return int(mine > its) - int(mine < its) if kind == its_kind else None


def _read(value: Any) -> tuple[str, Any]:
    """Return of what kind *value* is, and by what it is compared with others of that kind."""
    if not isinstance(value, str):
        is_number = isinstance(value, int | float | Decimal)
        return "a number" if is_number else f"a {type(value).__name__}", value  # What a consumer keeps can be anything.
    if value.isascii() and value.isdecimal():
        plain = value.lstrip("0")
        return "digits", (len(plain), plain)
    if moment := _moment(value):
        return "a time with a zone", moment
    return "another text", value


@lru_cache(maxsize=4_096)
def _moment(text: str) -> tuple[int, int, str] | None:
    """Return the minute that a time is in, the second of it, and the digits of its fraction; None where it is none.

    Zones are whole minutes off, so that each leap second, the 60th, stays a second of its own.
    """
    if not (found := _MOMENT.fullmatch(text)):
        return None
    part = found.groupdict(default="0")
    try:
        days = date(int(part["year"]), int(part["month"]), int(part["day"])).toordinal()
    except ValueError:
        return None
    east = int(part["hours"]) * 60 + int(part["minutes"])
    minute = days * 1_440 + int(part["hour"]) * 60 + int(part["minute"])
    minute += east if part["sign"] == "-" else -east
    return minute, int(part["second"]), part["fraction"].rstrip("0")
