"""Keeps patterns out of schemas that take more than a time which grows with their text, and a bounded one."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import re2

from penstock.core.walk import Schema, nodes, shown
from penstock.errors import InvalidEventType

STATES_MAX: Final = 10_000
"""How large a pattern may be when it is compiled: the time that it takes grows with that, too."""
ALL_STATES_MAX: Final = 1_000_000
"""The same for all of a schema together, which decides how much memory they take."""
NAMES_MAX: Final = 100
"""How many patterns the names of an object's members may be held against: each takes memory for each member."""
_SHOWN_CHARS: Final = 200
_LACKING: Final = re.compile(r"invalid perl operator: \(\?(<?[=!]|P$)|invalid escape sequence: \\[1-9k]")
"""What RE2 says of look-around and of back-references; `(?P` is all that it says of `(?P=name)`."""
_QUIET: Final = re2.Options()
_QUIET.log_errors = False


def check_patterns(schema: Schema) -> None:
    """Raise InvalidEventType unless RE2 takes all patterns of *schema*, and they are neither too large nor too many.

    >>> check_patterns({"pattern": "^(a+)+$"})
    >>> check_patterns({"pattern": "(?=a)"})
    Traceback (most recent call last):
    ...
    penstock.errors.refused.InvalidEventType: Field "schema.schema" has a pattern at # that is not taken, ...
    """
    states = 0
    for where, pattern in _patterns(schema):
        size = _size(where, pattern)
        states += size
        if size > STATES_MAX or states > ALL_STATES_MAX:
            raise _wrong(
                f"has a pattern at {where} that is too large, {_told(pattern)}: it makes {size} states, where "
                f"{STATES_MAX} are allowed, and {ALL_STATES_MAX} for all patterns; maxLength bounds a text more cheaply"
            )


def _patterns(schema: Schema) -> Iterator[tuple[str, str]]:
    for at, node in nodes(schema):
        if isinstance(node.get("pattern"), str):
            yield shown(at), node["pattern"]
        names = node.get("patternProperties")
        if isinstance(names, dict):
            if len(names) > NAMES_MAX:
                raise _wrong(f"has {len(names)} patternProperties at {shown(at)}, where {NAMES_MAX} are allowed")
            yield from ((shown(at), name) for name in names)


def count_states(pattern: str) -> int:
    """Return how many states RE2 makes of *pattern*; STATES_MAX for what it does not take, which was let in once.

    >>> count_states("^a$") < count_states("^[ab]{9}$")
    True
    """
    try:
        return _compiled_size(pattern)
    except re2.error:
        return STATES_MAX


def _size(where: str, pattern: str) -> int:
    try:
        return _compiled_size(pattern)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
        lacks = " (RE2 has no look-around and no back-references)" if _LACKING.match(str(why)) else ""
        raise _wrong(f"has a pattern at {where} that is not taken, {_told(pattern)}: {why}{lacks}") from None


def _compiled_size(pattern: str) -> int:
    return int(re2.compile(pattern, _QUIET).programsize)


def _told(value: str) -> str:
    return msgspec.json.encode(value).decode()[:_SHOWN_CHARS]


def _wrong(reason: str) -> InvalidEventType:
    return InvalidEventType(field="schema.schema", reason=reason)
