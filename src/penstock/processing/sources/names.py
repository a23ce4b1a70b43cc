"""Which names are wanted, by themselves or by regular expressions."""

import re
from collections.abc import Iterable
from functools import lru_cache
from re import Pattern
from typing import Final

from penstock.errors import BadParameter

REMEMBERED: Final = 65_536
"""Of so many names it is remembered whether they are wanted."""
_ALLOWED: Final = "a list of names or regular expressions"
_NAME: Final = re.compile(r"[\w.:-]+", re.ASCII)


class Names:
    """The names that are allowed, without those that are excepted; all, where nothing is allowed by name.

    Args:
        what: What is named, for errors and logs.
        allowed: Names, and regular expressions of which it is enough that they match a part of one.
        excepted: Likewise.

    Raises:
        BadParameter: one of them is no regular expression.
    """

    def __init__(
        self, what: str, allowed: Iterable[str | Pattern[str]] = (), excepted: Iterable[str | Pattern[str]] = ()
    ) -> None:
        self._what = what
        self._allowed = _patterns(what, allowed)
        self._excepted = _patterns(f"except_{what}", excepted)
        self.allow = lru_cache(REMEMBERED)(self._allow)
        """Tells whether a name is wanted."""

    def __reduce__(self) -> tuple[type, tuple[str, list[Pattern[str]], list[Pattern[str]]]]:
        return Names, (self._what, self._allowed, self._excepted)  # What is remembered of names stays where it is.

    def __bool__(self) -> bool:
        """Whether anything is said at all."""
        return bool(self._allowed or self._excepted)

    def __str__(self) -> str:
        allowed, excepted = (
            ", ".join(each.pattern for each in patterns) for patterns in (self._allowed, self._excepted)
        )
        return f"{self._what}: {allowed or 'all'}{f', not {excepted}' if excepted else ''}"

    def _allow(self, name: str) -> bool:
        if self._allowed and not any(each.search(name) for each in self._allowed):
            return False
        return not any(each.search(name) for each in self._excepted)


def category_of(stream: str, tranche: str) -> str:
    """Return what a stream is of: the event type of the feed that it was read from, or what its name begins with.

    >>> category_of("order-line.placed-7", "order-line.placed/3"), category_of("order-7-a", "0")
    ('order-line.placed', 'order')
    """
    event_type, slash, _ = tranche.rpartition("/")
    if slash and stream.startswith(f"{event_type}-"):
        return event_type
    return stream.partition("-")[0]


def _patterns(parameter: str, given: Iterable[str | Pattern[str]]) -> list[Pattern[str]]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadParameter(parameter=parameter, value=given, allowed=_ALLOWED)
    return [_pattern(parameter, each) for each in given]


def _pattern(parameter: str, given: str | Pattern[str]) -> Pattern[str]:
    if isinstance(given, re.Pattern):
        return given
    if not isinstance(given, str):
        raise BadParameter(parameter=parameter, value=given, allowed=_ALLOWED)
    if _NAME.fullmatch(given):
        return re.compile(f"^{re.escape(given)}\\Z")
    try:
        return re.compile(given)
    except re.error as error:
        raise BadParameter(
            parameter=parameter, value=given, allowed=f"a name, or a regular expression: {error}"
        ) from None
