"""Numbers that take long: JSON is read in a time that its length bounds, whatever numbers it holds.

By itself msgspec takes some hundred times as long for numbers near the ends of what a double can hold, such as 1e300,
as for others: a minute for a body full of them, in which nothing else in the process goes on. Python's way is as quick
for all.
"""

import math
from typing import Final

import msgspec


def finite(text: str) -> float:
    """Return the number that *text* spells; raise ValueError where a double cannot hold it.

    >>> finite("1.5e3")
    1500.0
    """
    number = float(text)
    if math.isinf(number):
        raise ValueError("Number out of range")
    return number


def is_extreme(number: float) -> bool:
    """Tell whether exact arithmetic with *number* takes some ten times as long as with others.

    >>> is_extreme(1e50), is_extreme(-1e-50), is_extreme(0), is_extreme(9_007_199_254_740_993)
    (True, True, False, False)
    """
    return number != 0 and not 1e-50 < abs(number) < 1e50


def count_exponents(raw: bytes) -> int:
    """Return at least how many numbers of *raw*, which is JSON, have an exponent of two digits, or more.

    Texts that look so count, too: to tell them apart would take longer than it is worth.

    >>> count_exponents(b'[1e50, 2.5E-301, 1e5, "0e123"]')
    3
    """
    alike = raw.translate(_ALIKE)
    return alike.count(b"0e00") + alike.count(b"0e+00")


_ALIKE: Final = bytes.maketrans(b"E-123456789", b"e+000000000")
decode: Final = msgspec.json.Decoder(float_hook=finite).decode
"""Returns any JSON value; raises what `msgspec.json.decode` does."""
