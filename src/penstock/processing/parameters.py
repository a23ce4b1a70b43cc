"""Checks of parameters, such as names, numbers and sources: an invalid one raises before it is used."""

import inspect
import sys
from collections.abc import Collection
from typing import Any, Final

from penstock.errors import BadParameter

INDEX_END: Final = 2**63 - 1
"""Every index of an event is smaller, so that the next index fits into columns of 64 bits."""

SECONDS_MAX: Final = sys.float_info.max
"""The largest number of seconds: larger whole numbers cannot be added to a time."""


def check_name(parameter: str, name: Any) -> None:
    """Raise BadParameter unless *name*, a key of stored state, is a printable text.

    A null equals no other in a database: a row under it would never be found again. Names are typed in commands, and
    printed in tables and logs.
    """
    if type(name) is not str or not name.strip() or not name.isprintable():
        allowed = "a text of at least one character, not of blanks alone, without control characters"
        raise BadParameter(parameter=parameter, value=name, allowed=allowed)


def check_members(parameter: str, value: Any, protocol: type, allowed: str) -> None:
    """Raise BadParameter if *value* lacks members of *protocol*; *allowed* describes right values.

    The error names the missing members if *value* has some of them.
    """
    wanted = [name for name in dir(protocol) if not name.startswith("_")]
    missing = [name for name in wanted if isinstance(value, type) or not hasattr(value, name)]
    if missing:
        lacks = f"; this one has no {', '.join(missing)}" if len(missing) < len(wanted) else ""
        raise BadParameter(parameter=parameter, value=redact(value), allowed=f"{allowed}{lacks}")


def check_kind(parameter: str, value: Any, kind: Any, allowed: str) -> None:
    """Raise BadParameter unless *value* is an instance of *kind*; *allowed* describes right values."""
    if not isinstance(value, kind):
        raise BadParameter(parameter=parameter, value=redact(value), allowed=allowed)


def redact(value: Any) -> Any:
    """Return an invalid value for an error message: of an address only its scheme, since it may contain a password.

    >>> redact("postgresql://me:secret@host/db"), redact("shop.db"), redact(5)
    ('postgresql://…', 'shop.db', 5)
    """
    is_address = isinstance(value, str) and "://" in value
    return f"{value.partition('://')[0]}://…" if is_address else value


def check_count(parameter: str, value: Any, *, least: int = 1) -> None:
    """Raise BadParameter unless *value* is a whole number from *least*."""
    if type(value) is not int or value < least:
        raise BadParameter(parameter=parameter, value=value, allowed=f"a whole number from {least}")


def check_whole(parameter: str, value: Any) -> None:
    """Raise BadParameter unless *value* is a whole number."""
    if type(value) is not int:
        raise BadParameter(parameter=parameter, value=redact(value), allowed="a whole number")


def check_texts(parameter: str, value: Any) -> None:
    """Raise BadParameter unless *value* is a collection of texts, such as a list; a single text is refused."""
    if (
        isinstance(value, str | bytes)
        or not isinstance(value, Collection)
        or not all(type(each) is str for each in value)
    ):
        raise BadParameter(parameter=parameter, value=redact(value), allowed="a list of texts, such as ['a', 'b']")


def check_number(parameter: str, value: Any, *, least: float, most: float = float("inf"), allowed: str) -> None:
    """Raise BadParameter unless *value* is a number from *least* to *most*; *allowed* describes right values."""
    if not is_number(value) or not least <= value <= most:
        raise BadParameter(parameter=parameter, value=value, allowed=allowed)


def check_seconds(parameter: str, value: Any, *, zero: bool = False) -> None:
    """Raise BadParameter unless *value* is a finite number of seconds: more than 0, or 0 if *zero* is True."""
    if not is_number(value) or not (0 < value <= SECONDS_MAX or (zero and value == 0)):
        raise BadParameter(
            parameter=parameter, value=value, allowed="0 or more, in seconds" if zero else "more than 0, in seconds"
        )


def check_some_seconds(parameter: str, value: Any) -> None:
    """Raise BadParameter unless *value* is a finite number of seconds above 0, or None."""
    if value is not None and (not is_number(value) or not 0 < value <= SECONDS_MAX):
        raise BadParameter(parameter=parameter, value=value, allowed="more than 0, or None, in seconds")


def check_flag(parameter: str, value: Any) -> None:
    """Raise BadParameter unless *value* is True or False."""
    if not isinstance(value, bool):
        raise BadParameter(parameter=parameter, value=value, allowed="True or False")


def is_number(value: Any) -> bool:
    """Return whether *value* is a number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_coroutine_function(value: Any) -> bool:
    """Return whether calls of *value* have to be awaited, also for an object with an async `__call__`.

    An object may say so by an attribute `is_async`, as wrappers do that forward calls.
    """
    called = getattr(value, "__call__", None)  # noqa: B004 - It is asked what it is, not whether it is there.
    is_written_so = inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(called)
    return is_written_so or getattr(value, "is_async", False) is True


def check_returns(parameter: str, value: Any) -> None:
    """Raise BadParameter if *value* is a generator function: calling it would not run its body."""
    if inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        shown = f"{getattr(value, '__name__', type(value).__name__)}, which yields"
        raise BadParameter(parameter=parameter, value=shown, allowed="a function that returns, and does not yield")


def check_function(parameter: str, value: Any, *arguments: str, is_async: bool | None = None) -> None:
    """Raise BadParameter if the signature of *value* does not accept *arguments*.

    Args:
        parameter: The parameter's name.
        value: The function.
        arguments: Names of the arguments of a call.
        is_async: False: *value* must not be a coroutine function. None: it may be one.
    """
    if is_async is False and is_coroutine_function(value):
        shown = f"async {getattr(value, '__name__', type(value).__name__)}"
        raise BadParameter(parameter=parameter, value=shown, allowed="a function that is not async")
    if callable(value):
        try:
            signature = inspect.signature(value, follow_wrapped=False)  # A wrapper may take other arguments.
        except ValueError:  # A function that is not written in Python.
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
