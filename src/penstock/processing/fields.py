"""The fields by which events are grouped and put in order."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.core.events.encoding import describe_mismatch
from penstock.errors import BadParameter
from penstock.processing.event import unplaced
from penstock.schema.traversal import Path, key_path

Fields = Sequence[str] | Callable[[Any], Any]
"""Paths through the whole event, such as `data.version`; or a function from an event, as handed in, to its value."""
Values = tuple[Any, ...]
_MISSING: Final = object()


class FieldReader:
    """Reads the values of fields out of events.

    Args:
        fields: Which.
        allowed: The types of value that will do, and how an error calls them.
        parameter: What the fields are for, for errors.

    Raises:
        BadParameter: there are none.
    """

    def __init__(self, fields: Fields, allowed: tuple[tuple[type, ...], str], parameter: str) -> None:
        if not callable(fields) and not _are_paths(fields):
            right = "a list of paths such as 'data.version', or a function from an event to its value"
            raise BadParameter(parameter=parameter, value=fields or None, allowed=right)
        self._types, self._right = allowed
        self._call: Callable[[Any], Any] | None = fields if callable(fields) else None
        self._paths: list[tuple[str, Path]] = [] if callable(fields) else [(field, key_path(field)) for field in fields]

    def read(self, event: Any, whole: Any, index: int, event_type: str | None) -> Values:
        """Return the values of *event*, whose `body` is *whole*, one for each field.

        Raises:
            EventUnusable: one of them is missing or of no type that will do; names the event and the field.
        """
        if self._call is not None:
            value = self._call(event)
            given = value if isinstance(value, tuple) else (value,)
            named = [("the function's value", each) for each in given]
        else:
            named = [(field, _at(whole, path)) for field, path in self._paths]
        for field, value in named:
            if type(value) not in self._types:
                wrong = describe_mismatch(None if value is _MISSING else value, self._right)
                raise unplaced(event, index, event_type, f"{field} {wrong}")
        return tuple([value for _, value in named])


def one(values: Values) -> Any:
    """Return the value itself where there is but one field, else all of them.

    >>> one((7,)), one(("de", 7))
    (7, ('de', 7))
    """
    return values[0] if len(values) == 1 else values


def many(value: Any) -> Values:
    """Return what `one` made of values as it was before.

    >>> many(7), many(("de", 7)), many(["de", 7])
    ((7,), ('de', 7), ('de', 7))
    """
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _are_paths(fields: Any) -> bool:
    is_list = isinstance(fields, Sequence) and not isinstance(fields, str | bytes)
    return is_list and bool(fields) and all(isinstance(field, str) and field for field in fields)


def _at(whole: Any, path: Path) -> Any:
    for step in path:
        if type(whole) is not dict or step not in whole:
            return _MISSING
        whole = whole[step]
    return whole
