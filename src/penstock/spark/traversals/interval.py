"""How much time is to pass from the start of one traversal to the start of the next."""

import datetime as dt

from penstock.spark.options import bad_option, delay_of


def interval_seconds(interval: str | dt.timedelta) -> int:
    """Return the seconds of *interval*: a time such as 30s, 15m, 1h, 1d, or a `timedelta`.

    Raises:
        BadParameter: it is neither, or shorter than a second.

    >>> interval_seconds("15m"), interval_seconds("1 d"), interval_seconds(dt.timedelta(minutes=2))
    (900, 86400, 120)
    """
    seconds = interval.total_seconds() if isinstance(interval, dt.timedelta) else delay_of("interval", interval)
    if seconds < 1:
        raise bad_option("interval", str(interval), "a second or more")
    return int(seconds)
