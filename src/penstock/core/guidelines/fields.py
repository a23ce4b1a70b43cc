"""Finds the fields of a schema, through its references and combinations, whatever a broken schema holds instead."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from penstock.core.walk import COMBINED, NAMED, Path, Pointer, Schema, children, steps, target

DEFINED: Final = frozenset(["definitions", "$defs"])
"""The members of a schema that other parts of it refer to."""
_NAMING: Final = DEFINED | {"properties"}
_NOT_WITHIN: Final = frozenset(["definitions", "not"])
_STEPS_MAX: Final = 100
"""So many references are followed one after the other, and so many combinations one within the other."""
_NOTHING: Final[Schema] = {}


class Node(NamedTuple):
    """A schema within a schema."""

    at: Pointer
    schema: Schema
    name: str | None = None
    """Of the property that it describes, if it does."""


def parts(root: Schema) -> Iterator[Node]:
    """Yield all schemas that have a say in an event, each once, in the order in which they stand.

    What is only defined, and never referred to, has none; nor has what `not` excludes, or what stands beside a
    reference.
    """
    seen: set[Pointer] = set()
    waiting: list[tuple[Pointer, Any, str | None]] = [((), root, None)]
    while waiting:
        at, schema, name = waiting.pop()
        if at in seen or not isinstance(schema, dict):
            continue
        seen.add(at)
        yield Node(at, schema, name)
        if isinstance(reference := schema.get("$ref"), str):
            waiting.append((steps(reference), target(root, reference), None))
        else:
            within = [(at + way, each, _named(way)) for way, each in children(schema) if way[0] not in _NOT_WITHIN]
            waiting += reversed(within)


def top_level(root: Schema) -> list[Node]:
    """Return the fields that an event itself has, in their order, each where it is described first."""
    found: dict[str, Node] = {}
    for place in _applied(root, Node((), root)):
        for name, schema in _members(place).items():
            found.setdefault(name, Node((*place.at, "properties", name), schema, name))
    return list(found.values())


def find(root: Schema, path: Path) -> Node | None:
    """Return what describes the field at *path* first, its references followed; None where nothing names it."""
    found: Node | None = None
    level: Sequence[Node] = [Node((), root)]
    for name in path:
        level = [each for node in level for each in _properties(root, node, name)]
        if not level:
            return None
        found = level[0]
    return found and resolved(root, found)


def is_required(root: Schema, path: Path) -> bool:
    """Tell whether the schema wants a value at *path* in every event, as far as it says so itself."""
    level: Sequence[Node] = [Node((), root)]
    for name in path:
        if not any(_requires(root, node, name, {}) for node in level):
            return False
        level = [each for node in level for each in _properties(root, node, name)]
    return True


def resolved(root: Schema, node: Node) -> Node:
    """Return what the references of *node* lead to, in the end; nothing where they do not lead to a schema."""
    at, schema = node.at, cast("Any", node.schema)
    for _ in range(_STEPS_MAX):
        if not isinstance(schema, dict):
            break
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return Node(at, schema, node.name)
        at, schema = steps(reference), target(root, reference)
    return Node(node.at, _NOTHING, node.name)


def names_on(at: Pointer) -> list[str]:
    """Return the names of the fields and definitions on the way to *at*.

    >>> names_on(("properties", "guests", "items", "properties", "name"))
    ['guests', 'name']
    """
    found, step = [], 0
    while step < len(at):
        if at[step] in _NAMING and step + 1 < len(at):
            found.append(at[step + 1])
        step += 2 if at[step] in NAMED or at[step] in COMBINED else 1
    return found


def _named(way: Pointer) -> str | None:
    return way[1] if way[0] == "properties" else None


def _properties(root: Schema, node: Node, name: str) -> list[Node]:
    """Return what describes the property *name* of *node*, also in what it is combined of."""
    places = [place for place in _applied(root, node) if name in _members(place)]
    return [Node((*place.at, "properties", name), _members(place)[name], name) for place in places]


def _members(node: Node) -> dict[str, Any]:
    properties = node.schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _applied(root: Schema, node: Node) -> Iterator[Node]:
    """Yield the schemas that describe the same value as *node*: itself, and what it is combined of."""
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        place = resolved(root, waiting.pop())
        if id(place.schema) not in seen:
            seen.add(id(place.schema))
            yield place
            waiting += [branch for method in reversed(COMBINED) for branch in reversed(_branches(place, method))]


def _requires(root: Schema, node: Node, name: str, known: dict[int, bool], depth: int = 0) -> bool:
    """Tell whether *node* requires the property *name*: itself, in all it combines, or in each that it may be."""
    place = resolved(root, node)
    mark = id(place.schema)
    if mark in known or depth > _STEPS_MAX:
        return known.get(mark, False)
    known[mark] = False  # Where it leads back to itself, it adds nothing.
    required = place.schema.get("required")
    of_all, *of_some = (
        [_requires(root, branch, name, known, depth + 1) for branch in _branches(place, method)] for method in COMBINED
    )
    known[mark] = (
        (isinstance(required, list) and name in required)
        or any(of_all)
        or any(bool(answers) and all(answers) for answers in of_some)
    )
    return known[mark]


def _branches(node: Node, method: str) -> list[Node]:
    branches = node.schema.get(method)
    if not isinstance(branches, list):
        return []
    return [Node((*node.at, method, str(number)), each) for number, each in enumerate(branches)]
