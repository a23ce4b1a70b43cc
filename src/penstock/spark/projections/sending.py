"""Makes the state of a projection fit to be sent to executors."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect

_CACHE: Final = "__msgspec_cache__"


def make_sendable(state: type) -> None:
    """Take away what msgspec has noted in the classes of a state, so that they can be sent; it notes it again.

    A class that is defined in a program, and in no module of its own, is sent whole. Of dataclasses and named tuples
    those notes would be a part, which cannot be sent.
    """
    for each in _classes(state):
        if _CACHE in vars(each):
            delattr(each, _CACHE)


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
