"""JSON as text: decoding in bounded time, strictness beyond msgspec's, numbers in Java's format.

msgspec takes about a hundred times as long for numbers near the ends of the range of a double, such as 1e300, as for
others. A body full of them would block the process for a minute. `decode` converts floats by Python's `float`, whose
time does not depend on the value.
"""

import json
import math
import re
from collections import Counter
from decimal import Decimal
from itertools import accumulate
from typing import Any, Final

import msgspec

from penstock.errors import MalformedEvent


def java_double(value: float) -> str:
    """Return *value* in the format of Java's Double.toString.

    >>> [java_double(x) for x in (1.0, 1e10, -0.0, 1e-5, 123456.789, 1e7, 0.001)]
    ['1.0', '1.0E10', '-0.0', '1.0E-5', '123456.789', '1.0E7', '0.001']
    """
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{int(exponent) + len(rest)}"


BOM: Final = b"\xef\xbb\xbf"
"""The UTF-8 byte order mark, which some editors write at the start of a file."""
CONTAINERS_MAX: Final = 100_000
"""Objects and lists in one event: decoding is one call, during which nothing else in the process is done."""
DEPTH_MAX: Final = 256
"""Upper bound of an event's nesting. Readers' JSON libraries have such limits too; no event in a feed may exceed
them."""
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"{}[]"))
_NO_OPENING: Final = bytes(set(range(256)) - set(b"{["))
_BLOCK: Final = 10_000
_STEPS: Final = [1 if byte in b"{[" else -1 for byte in range(256)]


def json_type_name(value: object) -> str:
    """Return the name of the JSON type of *value*, which is not an object.

    >>> json_type_name([]), json_type_name(1.5), json_type_name(None)
    ('an array', 'a number', 'null')
    """
    names: dict[type, str] = {str: "a string", list: "an array", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


EXPLAINED_BYTES_MAX: Final = 2 << 20
"""Text up to this size is decoded again to find out why it is malformed."""
_BYTE_NUMBER: Final = re.compile(r"(?<=\(byte )\d+(?=\)$)")


def explain_malformed(raw: bytes, error: Exception, ends: str = "it ends in the middle", *, start: int = 0) -> str:
    """Return the reason for which *raw* is not valid JSON.

    *error* is the error of the decoder, *ends* the text for truncated input, *start* the number of bytes before *raw*.
    """
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if raw.startswith(BOM):
        return "it begins with a UTF-8 byte order mark (EF BB BF): take those three bytes out"
    if len(raw) <= EXPLAINED_BYTES_MAX:
        try:
            raw.decode()
        except UnicodeDecodeError as bad:
            return f"byte {start + bad.start + 1} of it ({raw[bad.start]:02X}) is not UTF-8"
    if "truncated" not in str(error):
        return _BYTE_NUMBER.sub(lambda number: str(start + int(number[0])), str(error))
    if len(raw) > EXPLAINED_BYTES_MAX:
        return ends
    try:
        json.loads(raw, parse_int=str, parse_float=str)  # Python's own decoder accepts lone surrogates.
    except (ValueError, RecursionError):
        return ends
    return "an escape in it (\\uD800 to \\uDFFF) is half a surrogate pair, which is no character"


def check_depth(raw: bytes, line: int) -> None:
    """Raise MalformedEvent if *raw*, which is JSON, has more than 256 levels."""
    brackets = _STRING.sub(b"", raw).translate(None, delete=_NO_BRACKETS)
    deepest = level = 0
    for at in range(0, len(brackets), _BLOCK):  # Other threads may go on between two blocks.
        levels = list(accumulate(map(_STEPS.__getitem__, brackets[at : at + _BLOCK]), initial=level))
        deepest, level = max(deepest, *levels), levels[-1]
    if deepest > DEPTH_MAX:
        reason = f"the JSON is nested too deeply: {deepest} levels, {DEPTH_MAX} are allowed"
        raise MalformedEvent(line=line, reason=reason)


def check_containers(raw: bytes, line: int) -> None:
    """Raise MalformedEvent if *raw* has more than `CONTAINERS_MAX` objects and lists, before it is decoded."""
    if raw.count(b"{") + raw.count(b"[") <= CONTAINERS_MAX:
        return
    count = len(_STRING.sub(b"", raw).translate(None, delete=_NO_OPENING))
    if count > CONTAINERS_MAX:
        reason = f"the event has {count} objects and lists within it, {CONTAINERS_MAX} are allowed"
        raise MalformedEvent(line=line, reason=reason)


def refuse_duplicate_keys(raw: bytes, line: int) -> None:
    """Raise MalformedEvent if an object in *raw* has a duplicate key. This is slow."""

    def keep_unique(pairs: list[tuple[str, Any]]) -> None:
        if len({name for name, _ in pairs}) != len(pairs):
            counts = Counter(name for name, _ in pairs)
            twice = next(name for name, count in counts.items() if count > 1)
            raise MalformedEvent(line=line, reason=f"the key {twice!r} stands twice in one object")

    try:
        json.loads(raw, object_pairs_hook=keep_unique, parse_int=str, parse_float=str)
    except RecursionError:
        raise MalformedEvent(line=line, reason="the JSON is nested too deeply") from None
    except ValueError as error:
        raise MalformedEvent(line=line, reason=f"not valid JSON: {error}") from None


def parse_finite(text: str) -> float:
    """Return the number that *text* spells; raise ValueError if it exceeds the range of a double.

    >>> parse_finite("1.5e3")
    1500.0
    """
    number = float(text)
    if math.isinf(number):
        raise ValueError("Number out of range")
    return number


def is_extreme(number: float) -> bool:
    """Return whether exact arithmetic with *number* takes about ten times as long as with others.

    >>> is_extreme(1e50), is_extreme(-1e-50), is_extreme(0), is_extreme(9_007_199_254_740_993)
    (True, True, False, False)
    """
    return number != 0 and not 1e-50 < abs(number) < 1e50


def count_exponents(raw: bytes) -> int:
    """Return an upper bound of the numbers in *raw*, which is JSON, whose exponent has at least two digits.

    Strings with such digits count too; to exclude them would take too long.

    >>> count_exponents(b'[1e50, 2.5E-301, 1e5, "0e123"]')
    3
    """
    alike = raw.translate(_ALIKE)
    return alike.count(b"0e00") + alike.count(b"0e+00")


_ALIKE: Final = bytes.maketrans(b"E-123456789", b"e+000000000")
decode: Final = msgspec.json.Decoder(float_hook=parse_finite).decode
"""Decodes any JSON value; raises the errors of `msgspec.json.decode`."""
