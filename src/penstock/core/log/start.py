"""Where to start reading a feed: one vocabulary for clients, commands, processors, Spark and resets of groups.

    earliest     the first event that is there
    latest       the end: only events that come later
    a time       the first event that was received then or later
    a duration   the same, so long ago

In Python a time is a `datetime` with a zone, and a duration a `timedelta`. As text they are as RFC 3339 and
`core/times.py` have them. The words that Nakadi and ZeroEventHub have for this stay in their requests and cursors.
"""

from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, get_args

from penstock.core.times import format_duration, parse_duration, parse_timestamp
from penstock.errors import BadParameter

Word: TypeAlias = Literal["earliest", "latest"]
Start: TypeAlias = Word | datetime | timedelta
"""Where to start in a feed: the earliest or latest event, the first one received from a time on, or a duration ago."""
WORDS: Final[tuple[Word, ...]] = get_args(Word)

START_FORM: Final = "earliest, latest, a time such as 2026-11-20T10:00:00Z, or a duration ago such as 1h"
"""What an error says is allowed as text."""
START_VALUES: Final = "'earliest', 'latest', a datetime with a time zone, or a timedelta: so long ago"
"""What an error says is allowed in Python."""


def parse_start(text: str, parameter: str = "start") -> Start:
    """Return what *text* means; *parameter* names it in errors. A number needs a unit: an offset is no duration.

    Raises:
        BadParameter: *text* is none of the four.

    >>> parse_start("latest"), parse_start("1h")
    ('latest', datetime.timedelta(seconds=3600))
    >>> parse_start("begin", "--from")
    Traceback (most recent call last):
    penstock.errors.root.BadParameter: parameter --from is 'begin'; allowed: earliest, latest, a time such as \
2026-11-20T10:00:00Z, or a duration ago such as 1h
    """
    given = text.strip()
    for word in WORDS:
        if given.lower() == word:
            return word
    try:
        if given[-1:].isalpha() and not given.endswith(("Z", "z")):
            return timedelta(seconds=parse_duration(given))
        return parse_timestamp(given)
    except (ValueError, OverflowError):
        shown = "".join(each if each.isprintable() else "?" for each in text[:80])
        raise BadParameter(parameter=parameter, value=shown, allowed=START_FORM) from None


def check_start(value: Any, parameter: str = "start") -> Start:
    """Return *value*, an argument of a caller in Python.

    Raises:
        BadParameter: *value* is none of the four.

    >>> check_start("_first")
    Traceback (most recent call last):
    penstock.errors.root.BadParameter: parameter start is '_first'; allowed: 'earliest', 'latest', a datetime with a \
time zone, or a timedelta: so long ago
    """
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return value
    if isinstance(value, timedelta) and value >= timedelta():
        return value
    for word in WORDS:
        if value == word:
            return word
    raise BadParameter(parameter=parameter, value=value, allowed=START_VALUES)


def resolve_start(start: Start, now: datetime) -> Word | datetime:
    """Return *start* with a duration as the time that it means at *now*. Longer ago than all times is the earliest.

    >>> resolve_start(timedelta(hours=1), datetime.fromisoformat("2026-11-20T10:00:00+00:00")).isoformat()
    '2026-11-20T09:00:00+00:00'
    """
    if not isinstance(start, timedelta):
        return start
    try:
        return now - start
    except OverflowError:
        return "earliest"


def format_start(start: Start) -> str:
    """Return *start* as text that `parse_start` reads.

    >>> format_start("latest"), format_start(timedelta(hours=1))
    ('latest', '3600 seconds')
    """
    if isinstance(start, timedelta):
        return format_duration(start.total_seconds())
    return start.isoformat() if isinstance(start, datetime) else start
