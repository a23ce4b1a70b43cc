"""Parse the query parameters of a request. Errors name the parameter, its value and the allowed values."""

import math
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl

from penstock.core.events.event import lower_kind
from penstock.errors import BadCursor, BadParameter

TEXT_CHARS_MAX: Final = 8_192
PARAMETERS_MAX: Final = 16_384
"""Twice as many as a feed can have partitions, for each a cursor and its end, and the rest."""
ESCAPES_MAX: Final = 65_536
WHOLE_NUMBER_MAX: Final = 10**18 - 1
SHOWN_CHARS: Final = 80
UNTIL_ELSEWHERE: Final = "until only of GET /feeds: stream_limit and stream_timeout end a stream"
_SECONDS: Final = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NO_KIND: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def make_printable(text: str) -> str:
    r"""Return *text* shortened for an error message, and as valid UTF-8.

    >>> make_printable("n\udcff"), make_printable("grün")
    ('n\\udcff', 'grün')
    """
    return text[:SHOWN_CHARS].encode(errors="backslashreplace").decode()


class Query:
    """The query parameters of one request."""

    def __init__(self, raw: bytes) -> None:
        """Parse the raw query string. Bytes that are not UTF-8 are kept, and refused when they are used.

        Raises:
            BadParameter: There are more parameters, or percent-encoded bytes, than any request needs.
        """
        if raw.count(b"&") >= PARAMETERS_MAX or raw.count(b"%") > ESCAPES_MAX:
            allowed = f"at most {PARAMETERS_MAX} parameters and {ESCAPES_MAX} percent-encoded bytes"
            raise BadParameter(f"the query is too long; allowed: {allowed}", parameter="query", allowed=allowed)
        self._pairs = parse_qsl(
            raw.decode("ascii", "surrogateescape"), keep_blank_values=True, errors="surrogateescape"
        )
        self._values: dict[str, list[str]] = {}
        for name, value in self._pairs:
            self._values.setdefault(name, []).append(value)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def list_names(self) -> Iterable[str]:
        """Return the names in their order, including repeats."""
        return [name for name, _ in self._pairs]

    def find_text(self, name: str) -> str | None:
        """Return the value of *name*; None if it is missing.

        Raises:
            BadParameter: The parameter is repeated.
        """
        values = self.find_texts(name)
        if len(values) > 1:
            raise BadParameter(parameter=make_printable(name), value=make_printable(values[1]), allowed="one value")
        return values[0] if values else None

    def find_texts(self, name: str) -> list[str]:
        """Return all values of *name* in their order."""
        return self._values.get(name, [])

    def read_integer(self, name: str, default: int | None, *, low: int, high: int) -> int:
        """Return the integer *name*, or *default* if it is missing; without a default it is required.

        Raises:
            BadParameter: The parameter is missing, not an integer, or outside of *low* to *high*.
        """
        text = self.find_text(name)
        if text is None and default is not None:
            return default
        allowed = f"a whole number from {low} to {high}"
        if text is None or not (text.isascii() and text.isdigit() and len(text) <= 18) or not low <= int(text) <= high:
            given = None if text is None else make_printable(text)
            raise BadParameter(parameter=name, value=given, allowed=allowed)
        return int(text)

    def read_seconds(self, name: str, *, cut_at: float) -> float:
        """Return the seconds of *name*, at most *cut_at*; 0 if it is missing.

        Raises:
            BadParameter: The value is not a finite number of seconds.
        """
        text = self.find_text(name)
        if text is None:
            return 0.0
        value = float(text) if _SECONDS.fullmatch(text) else math.inf
        if value == math.inf:
            raise BadParameter(
                parameter=name, value=make_printable(text), allowed=f"seconds, 0 or more (cut at {cut_at:g})"
            )
        return min(value, cut_at)

    def read_flag(self, name: str) -> bool:
        """Return whether *name* is 1 or true.

        Raises:
            BadParameter: The value is not one of 0, 1, false and true.
        """
        text = self.find_text(name)
        if text is None or text.lower() in ("0", "false"):
            return False
        if text.lower() in ("1", "true"):
            return True
        raise BadParameter(parameter=name, value=make_printable(text), allowed="0, 1, false or true")

    def read_cursor(self, name: str) -> str | None:
        """Return the cursor *name*; None if it is missing.

        Raises:
            BadCursor: The value is too long, or not printable ASCII.
        """
        text = self.find_text(name)
        return None if text is None else check_cursor_text(text, name)


def check_cursor_text(text: str, parameter: str) -> str:
    """Return *text*, which can be a cursor, or cursors joined to one text.

    Raises:
        BadCursor: The value is too long, or not printable ASCII.
    """
    if len(text) > TEXT_CHARS_MAX or not (text.isascii() and text.isprintable()) or not text:
        reason = f"a cursor is 1 to {TEXT_CHARS_MAX} characters of printable ASCII"
        raise BadCursor(parameter=parameter, value=make_printable(text), reason=reason)
    return text


def refuse_until(query: Query, *, allowed: str, known: str = "") -> None:
    """Raise BadParameter if *query* has a parameter that begins with `until`, other than *known*.

    A read that ignored it would go on past the end that was asked for.
    """
    for name in query.list_names():
        if name.startswith("until") and name != known:
            raise BadParameter(
                parameter=make_printable(name), value=make_printable(query.find_text(name) or ""), allowed=allowed
            )


def parse_kinds(query: Query) -> tuple[frozenset[str], bool] | None:
    """Return the kinds to keep, or, with True, to skip; None if the read is not filtered (FeedAPI, `event-types`).

    Raises:
        BadParameter: Both filters are given, or one is empty.
    """
    keep, skip = query.find_text("event-types"), query.find_text("skip-event-types")
    if keep is not None and skip is not None:
        allowed = "either event-types or skip-event-types"
        raise BadParameter(parameter="skip-event-types", value=make_printable(skip), allowed=allowed)
    given = keep if keep is not None else skip
    if given is None:
        return None
    kinds = frozenset(kind.strip() for kind in given.split(";")) - {""}
    if not kinds or any(_NO_KIND.search(kind) for kind in kinds):
        name = "event-types" if keep is not None else "skip-event-types"
        raise BadParameter(parameter=name, value=make_printable(given), allowed="kinds, separated by ;")
    return frozenset(map(lower_kind, kinds)), keep is None


def parse_headers(query: Query) -> "HeaderChoice | None":
    """Return the requested headers; None if there are none."""
    text = query.find_text("headers")
    if text is None:
        return None
    names = frozenset(name.strip() for name in text.split(",")) - {""}
    return HeaderChoice("_all" in names, names) if names else None


class HeaderChoice:
    """The headers that a reader requests."""

    def __init__(self, everything: bool, names: frozenset[str]) -> None:
        self.everything = everything
        self.names = names

    def of(self, headers: dict[str, str]) -> dict[str, str]:
        """Return the requested ones of *headers*."""
        return headers if self.everything else {name: headers[name] for name in headers if name in self.names}
