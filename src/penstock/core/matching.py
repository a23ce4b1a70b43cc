"""Bounds what it takes to hold the texts of one event against the patterns of its schema.

A match takes a time that grows with the bytes of the text and with the states of the pattern: at the worst some ten
nanoseconds for each byte and state, during which nothing else in the process goes on. Which texts meet which patterns
only a validator knows. So where an event is so large that it matters, the validator asks here, text by text.
"""

import threading
from functools import cache
from typing import Any, Final

import jsonschema_rs

from penstock.core.patterns import count_states
from penstock.core.unfolding import most_weight
from penstock.core.walk import Schema, nodes

MATCH_MAX: Final = 100_000_000
"""The bytes of one text times the states of a pattern that it is held against: about a second at the worst."""
MATCHING_MAX: Final = 250_000_000
"""The same, for all texts of one event together."""
_SHOWN_CHARS: Final = 80
_spent: Final = threading.local()


class MeteredPattern:
    """The keyword `pattern`, with a count of the work: see `begin_event`."""

    def __init__(self, _schema: dict[str, Any], value: str, _path: list[str | int]) -> None:
        """Compile *value*, in the way in which jsonschema-rs makes keywords."""
        self._pattern = value
        self._states = count_states(value)
        self._validator = jsonschema_rs.Draft7Validator(
            {"pattern": value}, pattern_options=jsonschema_rs.RegexOptions()
        )

    def validate(self, instance: Any) -> None:
        """Raise ValueError where *instance* does not match, or where finding out would take too long."""
        if type(instance) is not str:
            return
        size = len(instance.encode())
        if _spent.why is None and (why := self._too_long(size)):
            _spent.why = why
        if _spent.why is not None:
            raise ValueError(_spent.why)
        _spent.work += size * self._states
        if not self._validator.is_valid(instance):
            raise ValueError(self._pattern)

    def _too_long(self, size: int) -> str | None:
        pattern = f"the pattern {self._pattern[:_SHOWN_CHARS]}, which has {self._states} states"
        if size * self._states > MATCH_MAX:
            return f"has a text of {size} bytes, where up to {MATCH_MAX // self._states} can be held against {pattern}"
        if _spent.work + size * self._states > MATCHING_MAX:
            return f"has more text than can be held against the patterns of its schema, such as {pattern}"
        return None


def begin_event() -> None:
    """Give this thread the work of one event to spend on patterns; to be called before each look at one."""
    _spent.work, _spent.why = 0, None


def why_too_long() -> str | None:
    """Return what of the event takes too long; None: nothing does, and what the validator has found is so."""
    found: str | None = _spent.why
    return found


def most_text_states(schema: Schema) -> int:
    """Return how many states of patterns at most one text of an event meets.

    >>> most_text_states({"properties": {"a": {"maxLength": 5}}})
    0
    """
    states = cache(count_states)
    return _most(schema, lambda node: states(node["pattern"]) if isinstance(node.get("pattern"), str) else 0)


def most_name_states(schema: Schema) -> int:
    """Return the same of the names of an event's members, as `patternProperties` has them."""
    states = cache(count_states)
    return _most(schema, lambda node: sum(map(states, node.get("patternProperties") or ())))


def count_name_bytes(event: Any) -> int:
    """Return how many bytes the names of all members within *event* have.

    >>> count_name_bytes({"a": [{"bc": 1}], "é": "d"})
    5
    """
    count, waiting = 0, [event]
    while waiting:
        value = waiting.pop()
        if type(value) is dict:
            count += sum(len(name.encode()) for name in value)
            waiting += value.values()
        elif type(value) is list:
            waiting += value
    return count


def _most(schema: Schema, weigh: Any) -> int:
    return most_weight(schema, weigh) if any(weigh(node) for _, node in nodes(schema)) else 0
