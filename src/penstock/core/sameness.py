"""When two values of JSON are equal."""

from typing import Any


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal as JSON says: 1 is 1.0, and neither is true.

    >>> same({"a": [1]}, {"a": [1.0]}), same(1, True)
    (True, False)
    """
    return bool(key_of(one) == key_of(other))


def key_of(value: Any) -> object:
    """Return what can be held in a set, equal for values that are the `same`."""
    if isinstance(value, dict):
        return frozenset((name, key_of(each)) for name, each in value.items())
    if isinstance(value, list):
        return tuple(map(key_of, value))
    return isinstance(value, bool), value
