"""Traverses schemas: their subschemas, their references, JSON pointers, and equality of JSON values."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from penstock.errors import InvalidEventType


def is_equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal in JSON: 1 equals 1.0, and neither equals true.

    >>> is_equal({"a": [1]}, {"a": [1.0]}), is_equal(1, True)
    (True, False)
    """
    return bool(key_of(one) == key_of(other))


def key_of(value: Any) -> object:
    """Return a hashable key of *value*; `is_equal` values have equal keys."""
    if isinstance(value, dict):
        return frozenset((name, key_of(each)) for name, each in value.items())
    if isinstance(value, list):
        return tuple(map(key_of, value))
    return isinstance(value, bool), value


Path = tuple[str, ...]


def key_path(field: str) -> Path:
    """Return the steps of a partition key field: dots separate, single quotes protect, a backslash escapes.

    >>> key_path("'a.b'.c"), key_path("order.id")
    (('a.b', 'c'), ('order', 'id'))
    """
    steps, step, quoted, letters = [], "", False, iter(field)
    for letter in letters:
        if letter == "\\":
            step += next(letters, "")
        elif letter == "'":
            quoted = not quoted
        elif letter == "." and not quoted:
            steps.append(step)
            step = ""
        else:
            step += letter
    return (*steps, step)


Schema = dict[str, Any]
"""A decoded JSON Schema."""
Pointer = tuple[str, ...]
"""The steps of a JSON pointer (RFC 6901)."""

COMBINED: Final = ("allOf", "anyOf", "oneOf")
NAMED: Final = ("definitions", "$defs", "properties", "patternProperties", "dependencies")
"""Keywords whose values map names to schemas."""
SINGLE: Final = ("not", "if", "then", "else", "additionalProperties", "additionalItems", "propertyNames", "contains")
"""Keywords whose value is one schema."""
HOLDING: Final = frozenset([*COMBINED, *NAMED, *SINGLE, "items"])
"""All keywords that contain schemas."""
MISSING: Final = object()


def children(node: Any) -> Iterator[tuple[Pointer, Any]]:
    """Yield the direct subschemas of *node*, each with its relative pointer.

    >>> list(children({"items": {"type": "string"}, "required": ["a"]}))
    [(('items',), {'type': 'string'})]
    """
    if not isinstance(node, dict) or HOLDING.isdisjoint(node):
        return
    for keyword in NAMED:
        held = node.get(keyword)
        for name, child in held.items() if isinstance(held, dict) else ():
            if not isinstance(child, list):  # A list of names is not a schema.
                yield (keyword, name), child
    for keyword in (*COMBINED, "items"):
        held = node.get(keyword)
        for number, child in enumerate(held) if isinstance(held, list) else ():
            yield (keyword, str(number)), child
    for keyword in (*SINGLE, "items"):
        if isinstance(node.get(keyword), dict | bool):
            yield (keyword,), node[keyword]


def map_children(node: Schema, change: Callable[[Any], Any]) -> Schema:
    """Return a copy of *node* with *change* applied to each direct subschema.

    >>> map_children({"items": {"type": "string"}, "required": ["a"]}, lambda child: {})
    {'items': {}, 'required': ['a']}
    """
    copy = dict(node)
    for keyword in HOLDING & node.keys():
        held = node[keyword]
        if keyword in NAMED:
            if isinstance(held, dict):
                copy[keyword] = {name: each if isinstance(each, list) else change(each) for name, each in held.items()}
        elif isinstance(held, list):
            copy[keyword] = held if keyword in SINGLE else [change(each) for each in held]
        elif isinstance(held, dict | bool):
            copy[keyword] = held if keyword in COMBINED else change(held)
    return copy


def list_nodes(root: Schema) -> Iterator[tuple[Pointer, Schema]]:
    """Yield *root* and all subschemas that are objects, each with its pointer."""
    waiting: list[tuple[Pointer, Any]] = [((), root)]
    while waiting:
        at, node = waiting.pop()
        if isinstance(node, dict):
            yield at, node
            waiting += ((at + way, child) for way, child in children(node))


def rebuild(root: Any, change: Callable[[Schema], Schema]) -> Any:
    """Return a copy of a schema with *change* applied to each node, from the root down, at any depth.

    *change* gets a copy of the node, which it can modify and return.

    >>> rebuild({"items": {"title": "a"}}, lambda node: node | {"title": "b"})
    {'items': {'title': 'b'}, 'title': 'b'}
    """
    made: list[Schema] = []

    def renew(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        made.append(change(dict(node)))
        return made[-1]

    copy = renew(root)
    while made:
        node = made.pop()
        if not HOLDING.isdisjoint(node):
            node.update(map_children(node, renew))
    return copy


def redirect_references(root: Any, move: Callable[[str], str]) -> Any:
    """Return a copy of a schema with *move* applied to each reference.

    >>> redirect_references({"items": {"$ref": "#/definitions/a"}}, lambda reference: "#/within" + reference[1:])
    {'items': {'$ref': '#/within/definitions/a'}}
    """

    def change(node: Schema) -> Schema:
        if isinstance(node.get("$ref"), str):
            node["$ref"] = move(node["$ref"])
        return node

    return rebuild(root, change)


def target(root: Schema, reference: str) -> Any:
    """Return the node within *root* that *reference* leads to; MISSING if there is none, or it is outside of *root*.

    >>> target({"definitions": {"a": {"type": "string"}}}, "#/definitions/a")
    {'type': 'string'}
    """
    if reference != "#" and not reference.startswith("#/"):
        return MISSING
    node: Any = root
    for name in steps(reference):
        if isinstance(node, list) and _is_place(name, len(node)):
            node = node[int(name)]
        elif isinstance(node, dict) and name in node:
            node = node[name]
        else:
            return MISSING
    return node


def _is_place(step: str, length: int) -> bool:
    """Return whether *step* is the index of a list item; numbers can be too long for Python to parse."""
    return step.isdecimal() and len(step) <= len(str(length)) and int(step) < length


def follow_reference(root: Schema, node: Any) -> Any:
    """Return *node*, or the schema that its references finally lead to; they must not be circular.

    >>> follow_reference({"definitions": {"a": {"type": "string"}}}, {"$ref": "#/definitions/a"})
    {'type': 'string'}
    """
    while isinstance(node, dict) and isinstance(node.get("$ref"), str):
        node = target(root, node["$ref"])
    return node


def steps(reference: str) -> Pointer:
    """Return the steps of a local reference.

    >>> steps("#/definitions/a~1b")
    ('definitions', 'a/b')
    """
    return tuple(unquote(name).replace("~1", "/").replace("~0", "~") for name in reference.split("/")[1:])


def format_pointer(at: Pointer) -> str:
    """Return a JSON pointer as a URI fragment.

    >>> format_pointer(("properties", "a/b"))
    '#/properties/a~1b'
    """
    return "/".join(["#", *(step.replace("~", "~0").replace("/", "~1") for step in at)])


_SHOWN_CHARS: Final = 200


def check_references(schema: Schema) -> None:
    """Raise InvalidEventType unless each reference of *schema* leads to a schema within it.

    >>> check_references({"items": {"$ref": "#/definitions/a"}, "definitions": {"a": {}}})
    """
    schemas = {()}.union((*at, *way) for at, node in list_nodes(schema) for way, _ in children(node))
    for at, node in list_nodes(schema):
        if "$ref" not in node:
            continue
        reference = node["$ref"]
        if not isinstance(reference, str):
            raise make_schema_error(f"has a $ref at {format_pointer(at)} that is not a string")
        if not reference.startswith("#"):
            raise make_schema_error(
                f"refers at {format_pointer(at)} to {abbreviate(reference)}, outside the schema, which is "
                "never fetched: copy the definition into definitions"
            )
        if target(schema, reference) is MISSING:
            raise make_schema_error(f"refers at {format_pointer(at)} to {abbreviate(reference)}, which does not exist")
        if steps(reference) not in schemas:
            where = "which is not the place of a schema: move it into definitions"
            raise make_schema_error(f"refers at {format_pointer(at)} to {abbreviate(reference)}, {where}")


def list_references(value: Any, at: Pointer = ()) -> Iterator[tuple[Pointer, str]]:
    """Yield the references within *value*, each with the pointer to the node that holds it; *value* is at *at*.

    >>> list(list_references({"items": {"$ref": "#"}}))
    [(('items',), '#')]
    """
    waiting = [(at, value)]
    while waiting:
        at, value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield at, value["$ref"]
            waiting += (((*at, name), each) for name, each in value.items())
        elif isinstance(value, list):
            waiting += (((*at, str(number)), each) for number, each in enumerate(value))


def find_changed_places(old: Schema, new: Schema) -> set[Pointer]:
    """Return the places whose meaning has changed in *new*: they differ, or refer to a place that does.

    >>> sorted(find_changed_places({"not": {"$ref": "#/a"}, "a": {}}, {"not": {"$ref": "#/a"}, "a": {"type": "null"}}))
    [(), ('a',), ('a', 'type'), ('not',)]
    """
    referring: dict[Pointer, list[Pointer]] = defaultdict(list)
    for at, reference in list_references(old):
        referring[steps(reference)].append(at)
    found: set[Pointer] = set()
    _note_differing(old, new, (), found)
    waiting = list(found)
    while waiting:
        for at in referring.pop(waiting.pop(), ()):
            for length in range(len(at), -1, -1):
                if at[:length] in found:
                    break  # All nodes around it are in the set already.
                found.add(at[:length])
                waiting.append(at[:length])
    return found


def _note_differing(old: Any, new: Any, at: Pointer, found: set[Pointer]) -> bool:
    """Return whether two values at the same place differ; add the pointers of all differing values to *found*."""
    before, after = _members(old), _members(new)
    names = before.keys() | after.keys()
    parts = [_note_differing(before.get(name, MISSING), after.get(name, MISSING), (*at, name), found) for name in names]
    differs = any(parts) or (type(old) is not type(new) if names else not is_equal(old, new))
    if differs:
        found.add(at)
    return differs


def _members(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {str(number): each for number, each in enumerate(value)}
    return value if isinstance(value, dict) else {}


def make_schema_error(reason: str) -> InvalidEventType:
    """Return the error for an invalid schema of an event type."""
    return InvalidEventType(field="schema.schema", reason=reason)


def abbreviate(value: Any) -> str:
    """Return the JSON of *value*, cut to a length for error texts."""
    return msgspec.json.encode(value).decode()[:_SHOWN_CHARS]
