"""Makes the state of a projection fit to be sent to executors."""

import sys
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect

from penstock.errors import BadParameter

_CACHE: Final = "__msgspec_cache__"


def make_sendable(state: type) -> None:
    """Take away what msgspec has noted in the classes of a state, so that they can be sent; it notes it again.

    A class that is defined in a program, and in no module of its own, is sent whole. Of dataclasses and named tuples
    those notes would be a part, which cannot be sent.

    Raises:
        BadParameter: there is a Struct among them that would have to be sent whole. It would come without its fields.
    """
    for each in _classes(state):
        if issubclass(each, msgspec.Struct) and not _is_found(each):
            allowed = (
                "a dataclass; or a Struct in a module that executors import, since Spark sends it without its fields"
            )
            raise BadParameter(parameter="state", value=f"{each.__qualname__} of {each.__module__}", allowed=allowed)
        if _CACHE in vars(each):
            delattr(each, _CACHE)


def _is_found(made: type) -> bool:
    """Tell whether a class can be imported, so that only its name is sent."""
    if made.__module__ == "__main__" or made.__module__ not in sys.modules:
        return False
    found: Any = sys.modules[made.__module__]
    for name in made.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is made


def _classes(state: type) -> Iterator[type]:
    """Yield the classes of a state: itself, and those that its fields are of."""
    seen: set[type] = set()
    left: list[Any] = [inspect.type_info(state)]
    while left:
        node = left.pop()
        if isinstance(node, tuple):
            left += node
        elif isinstance(node, inspect.Type | inspect.Field):
            made = getattr(node, "cls", None)
            if isinstance(made, type):
                if made in seen:
                    continue
                seen.add(made)
                yield made
            left += msgspec.structs.astuple(node)
