"""Fit JSON values into types of Arrow, one by one; values that do not fit are returned, and never lost.

This is far slower than Arrow, but handles every value. It agrees with Arrow on each value that Arrow reads.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import msgspec
import pyarrow as pa

NOTHING: Final = object()
"""The rest of a value that fits as a whole."""
Fitted = tuple[Any, Any]
"""The value in its column, and the rest that does not fit, or NOTHING."""
Fit = Callable[[Any], Fitted]
_NUMBERS: Final = (int, Decimal)
_DECIMAL: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
decode: Final = msgspec.json.Decoder(float_hook=Decimal).decode
"""Reads JSON with every digit of its numbers …"""
encode: Final = msgspec.json.Encoder(decimal_format="number").encode
"""… and writes them again."""


def fit_of(kind: pa.DataType) -> Fit:
    """Return a function that fits decoded JSON into *kind*. Null fits every kind.

    Raises:
        TypeError: JSON has no values of that type.

    >>> fit = fit_of(pa.struct({"id": pa.int64()}))
    >>> fit({"id": 7})[0], fit({"id": "x", "more": 1})
    ({'id': 7}, ({'id': None}, {'id': 'x', 'more': 1}))
    """
    if pa.types.is_struct(kind):
        return _struct({each.name: fit_of(each.type) for each in kind})
    if pa.types.is_list(kind):
        return _array(fit_of(kind.value_type))
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return _map(fit_of(kind.item_type))
    if pa.types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    if pa.types.is_signed_integer(kind):
        return _whole(1 << kind.bit_width - 1)
    if kind not in _SIMPLE:
        raise TypeError(f"no JSON is of the type {kind}")
    return _SIMPLE[kind]


def _struct(fits: Mapping[str, Fit]) -> Fit:
    def fit(value: Any) -> Fitted:
        if value is None:
            return None, NOTHING
        if not isinstance(value, dict):
            return None, value
        found, left = dict.fromkeys(fits), {}
        for name, each in value.items():
            found_fit = fits.get(name)
            if found_fit is None:
                rest = NOTHING if each is None else each
            else:
                found[name], rest = found_fit(each)
            if rest is not NOTHING:
                left[name] = rest
        return found, left or NOTHING

    return fit


def _array(fit_item: Fit) -> Fit:
    def fit(value: Any) -> Fitted:
        if value is None:
            return None, NOTHING
        if not isinstance(value, list):
            return None, value
        found = [fit_item(each) for each in value]
        if any(rest is not NOTHING for _, rest in found):
            return None, value  # It would not be known which items are missing.
        return [each for each, _ in found], NOTHING

    return fit


def _map(fit_value: Fit) -> Fit:
    def fit(value: Any) -> Fitted:
        if value is None:
            return None, NOTHING
        if not isinstance(value, dict):
            return None, value
        found = {name: fit_value(each) for name, each in value.items()}
        left = {name: rest for name, (_, rest) in found.items() if rest is not NOTHING}
        return [(name, each) for name, (each, _) in found.items() if name not in left], left or NOTHING

    return fit


def _whole(end: int) -> Fit:
    def fit(value: Any) -> Fitted:
        if value is None:
            return None, NOTHING
        if isinstance(value, Decimal) and value.adjusted() < 20 and value == value.to_integral_value():
            return (int(value), NOTHING) if -end <= value < end else (None, value)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return (value, NOTHING) if is_whole and -end <= value < end else (None, value)

    return fit


def _decimal(precision: int, scale: int) -> Fit:
    end = Decimal(10) ** (precision - scale)

    def fit(value: Any) -> Fitted:
        if value is None:
            return None, NOTHING
        is_number = isinstance(value, _NUMBERS) and not isinstance(value, bool)
        if not is_number and not (isinstance(value, str) and _DECIMAL.fullmatch(value)):
            return None, value
        found = Decimal(value)
        if not -end < found < end:
            return None, value
        exponent = found.normalize().as_tuple().exponent
        return (None, value) if isinstance(exponent, int) and -exponent > scale else (found, NOTHING)

    return fit


def _text(value: Any) -> Fitted:
    return (value if value is None or isinstance(value, str) else encode(value).decode()), NOTHING


def _number(value: Any) -> Fitted:
    if value is None:
        return None, NOTHING
    if not isinstance(value, _NUMBERS) or isinstance(value, bool):
        return None, value
    try:
        found = float(value)
    except OverflowError:
        return None, value
    return (found, NOTHING) if isfinite(found) else (None, value)


def _boolean(value: Any) -> Fitted:
    return (value, NOTHING) if value is None or isinstance(value, bool) else (None, value)


def _moment(value: Any) -> Fitted:
    """Fit a time: without a zone it is in UTC, and digits after the microseconds are cut off."""
    if value is None:
        return None, NOTHING
    try:
        found = datetime.fromisoformat(value.upper()) if isinstance(value, str) else None
        if found is not None:
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        found = None
    return (None, value) if found is None else (found, NOTHING)


def _day(value: Any) -> Fitted:
    if value is None:
        return None, NOTHING
    try:
        found = date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    return (None, value) if found is None else (found, NOTHING)


_SIMPLE: Final[Mapping[pa.DataType, Fit]] = {
    pa.bool_(): _boolean,
    pa.date32(): _day,
    pa.float64(): _number,
    pa.string(): _text,
    pa.timestamp("us", tz="UTC"): _moment,
}
