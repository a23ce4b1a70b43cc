"""What processing is told by its caller: a name, a number, a source. What is wrong is named before it is used."""

import inspect
import sys
from collections.abc import Collection
from typing import Any, Final

from penstock.errors import BadParameter

INDEX_END: Final = 2**63 - 1
"""Every index of an event is smaller: the index behind it is kept in columns of 64 bits."""

SECONDS_MAX: Final = sys.float_info.max
"""Whole numbers may be larger; no time can be added to these."""


def check_name(parameter: str, name: Any) -> None:
    """Raise BadParameter unless *name*, under which something is remembered, is a text that people can read.

    A null is like no other in a database: what is remembered under it would never be found again. Names are typed in
    commands, and printed in tables and logs.
    """
    if type(name) is not str or not name.strip() or not name.isprintable():
        allowed = "a text of at least one character, not of blanks alone, without control characters"
        raise BadParameter(parameter=parameter, value=name, allowed=allowed)


def check_members(parameter: str, value: Any, protocol: type, allowed: str) -> None:
    """Raise BadParameter unless *value* has what *protocol* names, as far as that can be told; *allowed* says what has.

    What it lacks is named where it has something of it.
    """
    wanted = [name for name in dir(protocol) if not name.startswith("_")]
    missing = [name for name in wanted if isinstance(value, type) or not hasattr(value, name)]
    if missing:
        lacks = f"; this one has no {', '.join(missing)}" if len(missing) < len(wanted) else ""
        raise BadParameter(parameter=parameter, value=shown(value), allowed=f"{allowed}{lacks}")


def check_kind(parameter: str, value: Any, kind: Any, allowed: str) -> None:
    """Raise BadParameter unless *value* is of a *kind*, for `isinstance`; *allowed* says which, and why."""
    if not isinstance(value, kind):
        raise BadParameter(parameter=parameter, value=shown(value), allowed=allowed)


def shown(value: Any) -> Any:
    """Return what may be shown of a value that is none: of an address its scheme, since a password may be in it.

    >>> shown("postgresql://me:secret@host/db"), shown("shop.db"), shown(5)
    ('postgresql://…', 'shop.db', 5)
    """
    is_address = isinstance(value, str) and "://" in value
    return f"{value.partition('://')[0]}://…" if is_address else value


def check_count(parameter: str, value: Any, *, least: int = 1) -> None:
    """Raise BadParameter unless *value* is a whole number from *least*."""
    if type(value) is not int or value < least:
        raise BadParameter(parameter=parameter, value=value, allowed=f"a whole number from {least}")


def check_whole(parameter: str, value: Any) -> None:
    """Raise BadParameter unless *value* is a whole number, whichever."""
    if type(value) is not int:
        raise BadParameter(parameter=parameter, value=shown(value), allowed="a whole number")


def check_texts(parameter: str, value: Any) -> None:
    """Raise BadParameter unless *value* is a collection of texts, such as a list; a text by itself is none."""
    if (
        isinstance(value, str | bytes)
        or not isinstance(value, Collection)
        or not all(type(each) is str for each in value)
    ):
        raise BadParameter(parameter=parameter, value=shown(value), allowed="a list of texts, such as ['a', 'b']")


def check_number(parameter: str, value: Any, *, least: float, most: float = float("inf"), allowed: str) -> None:
    """Raise BadParameter unless *value* is a number from *least* to *most*; *allowed* says which these are."""
    if not is_number(value) or not least <= value <= most:
        raise BadParameter(parameter=parameter, value=value, allowed=allowed)


def check_seconds(parameter: str, value: Any, *, zero: bool = False) -> None:
    """Raise BadParameter unless *value* is a finite number of seconds: more than 0, or 0 where *zero* is allowed."""
    if not is_number(value) or not (0 < value <= SECONDS_MAX or (zero and value == 0)):
        raise BadParameter(
            parameter=parameter, value=value, allowed="0 or more, in seconds" if zero else "more than 0, in seconds"
        )


def check_some_seconds(parameter: str, value: Any) -> None:
    """Raise BadParameter unless *value* is a finite number of seconds above 0, or None: none at all."""
    if value is not None and (not is_number(value) or not 0 < value <= SECONDS_MAX):
        raise BadParameter(parameter=parameter, value=value, allowed="more than 0, or None, in seconds")


def check_flag(parameter: str, value: Any) -> None:
    """Raise BadParameter unless *value* is True or False."""
    if not isinstance(value, bool):
        raise BadParameter(parameter=parameter, value=value, allowed="True or False")


def is_number(value: Any) -> bool:
    """Tell whether *value* is a number; neither True nor False is one here."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_coroutine_function(value: Any) -> bool:
    """Tell whether calls of *value* are to be awaited: also of an object whose `__call__` is such, or that says so.

    It says so by an attribute `is_async`, as wrappers do that hand calls on.
    """
    called = getattr(value, "__call__", None)  # noqa: B004 - It is asked what it is, not whether it is there.
    is_written_so = inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(called)
    return is_written_so or getattr(value, "is_async", False) is True


def check_returns(parameter: str, value: Any) -> None:
    """Raise BadParameter if *value* is a function that yields: called as one that returns, it does nothing."""
    if inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        shown = f"{getattr(value, '__name__', type(value).__name__)}, which yields"
        raise BadParameter(parameter=parameter, value=shown, allowed="a function that returns, and does not yield")


def check_function(parameter: str, value: Any, *arguments: str, is_async: bool | None = None) -> None:
    """Raise BadParameter unless *value* can be called with so many arguments, as far as that can be told.

    Args:
        parameter: Its name.
        value: The function.
        arguments: What it is to be called with.
        is_async: Whether it is to be a coroutine function; None: it may be.
    """
    if is_async is False and is_coroutine_function(value):
        shown = f"async {getattr(value, '__name__', type(value).__name__)}"
        raise BadParameter(parameter=parameter, value=shown, allowed="a function that is not async")
    if callable(value):
        try:
            signature = inspect.signature(value, follow_wrapped=False)  # A wrapper may take other arguments.
        except ValueError:  # Of what is not written in Python.
            return
        try:
            signature.bind(*arguments)
        except TypeError:
            taken = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
            shown = f"{getattr(value, '__name__', type(value).__name__)}{inspect.Signature(taken)}"
        else:
            return
    else:
        shown = value
    wanted = f"({', '.join(arguments)})" if arguments else "no arguments"
    raise BadParameter(parameter=parameter, value=shown, allowed=f"a function that takes {wanted}")
