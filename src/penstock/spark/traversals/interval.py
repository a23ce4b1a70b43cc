"""How much time is to pass from the start of one traversal to the start of the next."""

import datetime as dt
import re
from typing import Final

from penstock.errors import BadParameter

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_FORM: Final = re.compile(r"(\d{1,9}) ?([smhd])", re.ASCII)


def interval_seconds(interval: str | dt.timedelta) -> int:
    """Return the seconds of *interval*: a number of seconds, minutes, hours or days, or a `timedelta`.

    Raises:
        BadParameter: it is neither, or shorter than a second.

    >>> interval_seconds("15m"), interval_seconds("1 d"), interval_seconds(dt.timedelta(minutes=2))
    (900, 86400, 120)
    """
    if isinstance(interval, dt.timedelta):
        seconds = int(interval.total_seconds())
    else:
        match = _FORM.fullmatch(interval.strip())
        seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if seconds < 1:
        raise BadParameter(parameter="interval", value=str(interval), allowed="a second or more: 30s, 15m, 1h, 1d")
    return seconds
