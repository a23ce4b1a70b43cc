"""What values rows can have: those that SQLite, PostgreSQL and files alike keep, so that rows are the same anywhere."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import msgspec

from penstock.core.events.encoding import TIMES, find_inexact_values, has_inexact, may_be_inexact

FINITE: Final = "finite numbers"
WHOLE: Final = "whole numbers of 64 bits"
TEXTS: Final = "texts without NUL and what else is not Unicode"
ZONES: Final = "times whose zone offset has no seconds, as JSON keeps them"
IN_UTC: Final = "times in UTC, as `.astimezone(UTC)` gives them"
DIGITS: Final = "numbers of up to 131072 digits, and 16383 behind the point"


def wrong_value(value: Any) -> str | None:
    """Return what can be kept anywhere where a value that is a column's cannot; None: it can.

    >>> wrong_value(2**63), wrong_value("a"), wrong_value(float("nan"))
    ('whole numbers of 64 bits', None, 'finite numbers')
    """
    if isinstance(value, str):
        return None if "\0" not in value and _is_unicode(value) else TEXTS
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**63 else WHOLE
    if isinstance(value, float):
        return None if isfinite(value) else FINITE
    if isinstance(value, Decimal):
        return _wrong_decimal(value)
    if isinstance(value, datetime):
        # PostgreSQL keeps no zone: a fold would go on in another.
        return None if str(value.tzinfo) == "UTC" else IN_UTC
    return None


def wrong_json(value: Any) -> str | None:
    """Return likewise what is wrong with a value that is kept as JSON.

    JSON would not keep some numbers and times in it, see `core.inexact`, and PostgreSQL has no JSON with NUL.
    """
    try:
        text = msgspec.json.encode(value)
        held = msgspec.to_builtins(value, builtin_types=TIMES) if may_be_inexact(text) or rb"\u0000" in text else None
    except (TypeError, ValueError, RecursionError) as error:
        return f"what JSON can have ({error})"
    if held is not None and has_inexact(held, text):
        return FINITE if isinstance(next(find_inexact_values(held)).value, float) else ZONES
    found = (wrong_value(part) for part in (_parts(held) if rb"\u0000" in text else ()) if isinstance(part, str))
    return next((wrong for wrong in found if wrong is not None), None)


def _wrong_decimal(value: Decimal) -> str | None:
    _, digits, exponent = value.as_tuple()
    if isinstance(exponent, str):
        return FINITE
    return None if exponent >= -16383 and len(digits) + exponent <= 131072 else DIGITS


def _is_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _parts(value: Any) -> Iterator[Any]:
    """Yield the numbers and the texts in a value."""
    if isinstance(value, Mapping):
        yield from _parts([*value.keys()])
        yield from _parts([*value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _parts(each)
    else:
        yield value
