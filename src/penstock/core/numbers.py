"""Reads JSON in a time that its length bounds, whatever numbers it holds.

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


decode: Final = msgspec.json.Decoder(float_hook=finite).decode
"""Returns any JSON value; raises what `msgspec.json.decode` does."""
