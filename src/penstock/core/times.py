"""Times and durations as text.

Durations are as people write them in options: `30s`, `15m`, `2 hours`, `1 hour 30 minutes`. The command line and the
options of Spark's sources and sinks take the same: what Spark calls an interval string, and its short form. In Python,
durations are plain seconds.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec

EXAMPLES: Final = "a duration such as 30s, 15m, 2h, 1d or '10 seconds'"
"""What an error says is allowed."""
_UNITS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
}
_PART: Final = r"(\d{1,9}(?:\.\d{1,6})?) ?([a-z]*)"
_DURATION: Final = re.compile(rf"{_PART}(?: +{_PART})*", re.ASCII)
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_Time = Annotated[datetime, msgspec.Meta(tz=True)]


def parse_duration(text: str) -> float:
    """Return the seconds of the duration *text*; a number without a unit is seconds.

    Raises:
        ValueError: it is no duration.

    >>> [parse_duration(text) for text in ("30s", "15 minutes", "1.5h", "1 hour 30 minutes", "604800")]
    [30.0, 900.0, 5400.0, 5400.0, 604800.0]
    """
    given = text.strip().lower()
    if not _DURATION.fullmatch(given):
        raise ValueError(text)
    total = 0.0
    for number, unit in re.findall(_PART, given):
        if unit not in _UNITS:
            raise ValueError(text)
        total += float(number) * _UNITS[unit]
    return total


def format_duration(seconds: float) -> str:
    """Return *seconds* as a duration that `parse_duration` reads.

    >>> format_duration(120.0), format_duration(0.25)
    ('120 seconds', '0.25 seconds')
    """
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + " seconds"


def parse_timestamp(text: str | None) -> datetime:
    """Return the time *text*, as RFC 3339 writes it: with a zone.

    Raises:
        ValueError: it is none.

    >>> parse_timestamp("1970-01-01T01:00:01.5+01:00").isoformat()
    '1970-01-01T01:00:01.500000+01:00'
    """
    return msgspec.convert(text, _Time)


def count_microseconds(time: datetime) -> int:
    """Return *time*, which has a zone, in microseconds since 1970, UTC.

    >>> count_microseconds(datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC))
    1500000
    """
    return (time - _BEGINNING) // timedelta(microseconds=1)


def format_time(at: int) -> str:
    """Return *at*, microseconds since 1970, as RFC 3339 in UTC with milliseconds, as Nakadi writes it.

    >>> format_time(1_474_644_913_273_000)
    '2016-09-23T15:35:13.273Z'
    """
    return datetime.fromtimestamp(at // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{at // 1000 % 1000:03}Z"
