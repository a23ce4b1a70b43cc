"""Check the arguments of clients and readers, and the bodies of requests.

Errors name the argument, its value, and a right one.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from penstock.errors import BadParameter

Given = TypeVar("Given", bound=msgspec.Struct)


def convert_body(given: Any, type: type[Given], allowed: str) -> Given:
    """Return *given*, decoded JSON, as *type*.

    Raises:
        BadParameter: A member is unknown, missing or malformed; *allowed* says what a body may have.
    """
    try:
        return msgspec.convert(given, type)
    except msgspec.ValidationError as error:
        raise BadParameter(f"the body: {error}; allowed: {allowed}", parameter="body", allowed=allowed) from None


def check_type(name: str, value: object, kinds: type | tuple[type, ...], allowed: str) -> None:
    """Raise BadParameter unless *value* is an instance of *kinds*.

    >>> check_type("schema", 5, (str, dict), "a JSON Schema as text or mapping")
    Traceback (most recent call last):
    penstock.errors.root.BadParameter: parameter schema is 5; allowed: a JSON Schema as text or mapping
    """
    if not isinstance(value, kinds):
        raise BadParameter(parameter=name, value=value, allowed=allowed)


def check_callable(name: str, value: object) -> None:
    """Raise BadParameter unless *value* is callable."""
    if not callable(value):
        raise BadParameter(parameter=name, value=value, allowed="a function")


def check_count(name: str, value: object, least: int) -> None:
    """Raise BadParameter unless *value* is an integer, *least* or more."""
    if type(value) is not int or value < least:
        raise BadParameter(parameter=name, value=value, allowed=f"a whole number, {least} or more")


def check_seconds(name: str, value: Any, *, is_positive: bool = False, is_finite: bool = False) -> None:
    """Raise BadParameter unless *value* is a number of seconds, 0 or more."""
    is_number = type(value) in (int, float)
    if not is_number or not value >= 0 or (is_positive and value == 0) or (is_finite and value == float("inf")):
        allowed = "seconds, more than 0" if is_positive else "seconds, 0 or more"
        raise BadParameter(parameter=name, value=value, allowed=allowed)


def check_items(name: str, value: Any, kinds: type | tuple[type, ...], allowed: str) -> list[Any]:
    """Return *value* as a list. Raise BadParameter unless it is an iterable of instances of *kinds*."""
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    items = list(value) if is_list else []
    if not is_list or not all(isinstance(item, kinds) for item in items):
        raise BadParameter(parameter=name, value=value, allowed=allowed)
    return items


def check_names(name: str, value: Any) -> list[str]:
    """Return *value* as a list of names.

    Raises:
        TypeError: *value* is one string, which would be read letter by letter, or not a list of strings.

    >>> check_names("event_types", "order.placed")
    Traceback (most recent call last):
    TypeError: event_types is 'order.placed'; pass a list of names, such as ['order.placed']
    """
    names = list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else None
    if names is None or not all(isinstance(each, str) for each in names):
        example = value if isinstance(value, str) else "order.placed"
        raise TypeError(f"{name} is {value!r}; pass a list of names, such as [{example!r}]")
    return names


def check_partitions(value: Any) -> None:
    """Raise BadParameter unless *value* is a collection of partition numbers, or None."""
    if value is not None:
        check_items("partitions", value, int, "a list of partition numbers, such as [0, 1]")


def check_cursors(value: Any) -> None:
    """Raise BadParameter unless *value* maps partition numbers to cursors."""
    is_mapping = isinstance(value, Mapping)
    if not is_mapping or not all(type(number) is int and isinstance(value[number], str) for number in value):
        raise BadParameter(
            parameter="cursors", value=value, allowed="a cursor by partition number, such as {0: '_first'}"
        )
