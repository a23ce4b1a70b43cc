"""Finds values that the JSON encoder would change in silence.

It writes null for a float that is not finite, and rounds the offset of a time zone to minutes: local mean times, and
zones before standard time came, have seconds.
"""

import marshal
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final, NamedTuple

TIMES: Final = (datetime, time)
"""Types that `msgspec.to_builtins` leaves as they are, so that their values can be checked."""
_NULL: Final = b"null"
_CLOCK: Final = re.compile(rb":[0-5]\d:[0-5]\d")
_MINUTE: Final = timedelta(minutes=1)
_PLAIN_KEY: Final = re.compile(r"\w+")


class Inexact(NamedTuple):
    """A value that JSON would not keep, and where it is."""

    path: str
    """Such as `lines[0].price`."""
    value: float | datetime | time

    @property
    def reason(self) -> str:
        """The reason for the refusal."""
        if isinstance(self.value, float):
            return f"{self.path} is {self.value}, which JSON has no number for"
        advice = "convert it with .astimezone(UTC)" if isinstance(self.value, datetime) else "give it another zone"
        zone = f"its zone offset {self.value.utcoffset()} has seconds, which JSON's times cannot say"
        return f"{self.path} is {self.value.isoformat()}: {zone}; {advice}"


def may_be_inexact(raw: bytes) -> bool:
    """Return whether *raw*, which was just encoded, may have been made of such values: it has null, or a time."""
    return _NULL in raw or _CLOCK.search(raw) is not None


def has_inexact(value: Any, raw: bytes) -> bool:
    """Return whether there are such values in *value*, plain lists, dicts, and what these hold, whose JSON is *raw*."""
    if _NULL not in raw and _is_without_times(value):
        return False
    waiting = [value]
    for each in waiting:
        kind = type(each)
        if kind is dict:
            waiting += each.values()
            if {*map(type, each)} != _TEXTS:
                waiting += each
        elif kind in _LISTS:
            waiting += each
        elif kind in _CHECKED and not _is_exact(each):
            return True
    return False


def _is_without_times(value: Any) -> bool:
    # Far quicker than to look at each: marshal knows what is plain, and no times.
    try:
        marshal.dumps(value)
    except ValueError:
        return False
    return True


def inexact(value: Any, path: str = "") -> Iterator[Inexact]:
    """Yield such values in *value*, likewise; those of a key stand at what it is the key of."""
    if isinstance(value, dict):
        for name, each in value.items():
            place = _member(path, name)
            yield from inexact(name, place)
            yield from inexact(each, place)
    elif isinstance(value, list | tuple | set | frozenset):
        for number, each in enumerate(value):
            yield from inexact(each, f"{path}[{number}]")
    elif type(value) in _CHECKED and not _is_exact(value):
        yield Inexact(path or "it", value)


def in_utc(value: Any) -> Any:
    """Return *value*, with such datetimes in UTC.

    Raises:
        OverflowError: one is before year 1, or after 9999, in UTC.
    """
    if isinstance(value, dict):
        return {in_utc(name): in_utc(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [in_utc(each) for each in value]
    return value.astimezone(UTC) if isinstance(value, datetime) and not _is_exact(value) else value


def _is_exact(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    offset = value.utcoffset()
    return offset is None or not offset % _MINUTE


def _member(path: str, name: Any) -> str:
    text = name if isinstance(name, str) else str(name)
    if not _PLAIN_KEY.fullmatch(text):
        return f"{path}[{text!r}]"
    return f"{path}.{text}" if path else text


_TEXTS: Final = {str}
_LISTS: Final = frozenset([list, tuple, set, frozenset])
_CHECKED: Final = frozenset([float, *TIMES])
