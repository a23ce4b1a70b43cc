"""References within a schema: where they may lead, and which of them mean something else than before."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from penstock.core.sameness import same
from penstock.core.walk import MISSING, Pointer, Schema, children, nodes, shown, steps, target
from penstock.errors import InvalidEventType

_SHOWN_CHARS: Final = 200


def check_references(schema: Schema) -> None:
    """Raise InvalidEventType unless each reference of *schema* leads to a schema within it.

    >>> check_references({"items": {"$ref": "#/definitions/a"}, "definitions": {"a": {}}})
    """
    schemas = {()}.union((*at, *way) for at, node in nodes(schema) for way, _ in children(node))
    for at, node in nodes(schema):
        if "$ref" not in node:
            continue
        reference = node["$ref"]
        if not isinstance(reference, str):
            raise _wrong(f"has a $ref at {shown(at)} that is no text")
        if not reference.startswith("#"):
            raise _wrong(
                f"refers at {shown(at)} to {_told(reference)}, outside of itself, which is never fetched: "
                "put what is there under definitions"
            )
        if target(schema, reference) is MISSING:
            raise _wrong(f"refers at {shown(at)} to {_told(reference)}, which leads to nothing")
        if steps(reference) not in schemas:
            where = "where no schema stands: put what is there under definitions"
            raise _wrong(f"refers at {shown(at)} to {_told(reference)}, {where}")


def references(value: Any, at: Pointer = ()) -> Iterator[tuple[Pointer, str]]:
    """Yield the references within *value*, which stands at *at*, each with the way to what holds it.

    >>> list(references({"items": {"$ref": "#"}}))
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


def moved(old: Schema, new: Schema) -> set[Pointer]:
    """Return the places that mean something else in *new*: they differ, or refer to one that does.

    >>> sorted(moved({"not": {"$ref": "#/a"}, "a": {}}, {"not": {"$ref": "#/a"}, "a": {"type": "null"}}))
    [(), ('a',), ('a', 'type'), ('not',)]
    """
    referring: dict[Pointer, list[Pointer]] = defaultdict(list)
    for at, reference in references(old):
        referring[steps(reference)].append(at)
    found: set[Pointer] = set()
    _note_differing(old, new, (), found)
    waiting = list(found)
    while waiting:
        for at in referring.pop(waiting.pop(), ()):
            for length in range(len(at), -1, -1):
                if at[:length] in found:
                    break  # And what holds it is, too.
                found.add(at[:length])
                waiting.append(at[:length])
    return found


def _note_differing(old: Any, new: Any, at: Pointer, found: set[Pointer]) -> bool:
    """Tell whether two values at the same place differ; take down that they do, and which of those within them."""
    before, after = _members(old), _members(new)
    names = before.keys() | after.keys()
    parts = [_note_differing(before.get(name, MISSING), after.get(name, MISSING), (*at, name), found) for name in names]
    differs = any(parts) or (type(old) is not type(new) if names else not same(old, new))
    if differs:
        found.add(at)
    return differs


def _members(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {str(number): each for number, each in enumerate(value)}
    return value if isinstance(value, dict) else {}


def _wrong(reason: str) -> InvalidEventType:
    return InvalidEventType(field="schema.schema", reason=reason)


def _told(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:_SHOWN_CHARS]
