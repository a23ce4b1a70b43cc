"""All the types of which a type is made, as msgspec describes them."""

from collections.abc import Iterator
from typing import Any

from msgspec import inspect


def type_nodes(kind: Any) -> Iterator[Any]:
    """Yield the description of *kind*, and of each type within it, once.

    Raises:
        TypeError: msgspec has no description of it.

    >>> [type(node).__name__ for node in type_nodes(dict[str, list[int]])]
    ['DictType', 'StrType', 'ListType', 'IntType']
    """
    known: set[int] = set()
    waiting: list[Any] = [inspect.type_info(kind)]
    while waiting:
        found = waiting.pop()
        if isinstance(found, tuple):
            waiting += reversed(found)
        elif isinstance(found, inspect.Type | inspect.Field) and id(found) not in known:
            known.add(id(found))
            if isinstance(found, inspect.Type):
                yield found
            waiting += [getattr(found, name) for name in reversed(found.__struct_fields__)]
