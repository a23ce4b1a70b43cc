"""Reads an unchecked definition of an event type: its members, and the fields of its schema.

The definition can be broken in any way; each function returns the parts that can be understood.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, cast

import msgspec

from penstock.schema.guidelines.names import says_time
from penstock.schema.json_text import decode
from penstock.schema.traversal import COMBINED, NAMED, Path, Pointer, Schema, children, key_path, steps, target

DEFINED: Final = frozenset(["definitions", "$defs"])
"""Members of a schema that other parts of it refer to."""
_NAMING: Final = DEFINED | {"properties"}
_NOT_WITHIN: Final = frozenset(["definitions", "not"])
_STEPS_MAX: Final = 100
"""Upper bound of the references in a row, and of the combinations within each other."""
_NOTHING: Final[Schema] = {}


class Node(NamedTuple):
    """A subschema."""

    at: Pointer
    schema: Schema
    name: str | None = None
    """The name of the property that it describes, if any."""


def parts(root: Schema) -> Iterator[Node]:
    """Yield all subschemas that apply to events, each once, in the order of the text.

    Definitions without a reference to them do not apply; nor do the contents of `not`, and keywords beside a reference.
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
            within = [
                (at + way, each, _property_name(way)) for way, each in children(schema) if way[0] not in _NOT_WITHIN
            ]
            waiting += reversed(within)


def top_level_fields(root: Schema) -> list[Node]:
    """Return the fields of the event itself, in order, each where it is described first."""
    found: dict[str, Node] = {}
    for place in _list_applicable(root, Node((), root)):
        for name, schema in _members(place).items():
            found.setdefault(name, Node((*place.at, "properties", name), schema, name))
    return list(found.values())


def find(root: Schema, path: Path) -> Node | None:
    """Return the first subschema of the field at *path*, with its references followed; None if there is none."""
    found: Node | None = None
    level: Sequence[Node] = [Node((), root)]
    for name in path:
        level = [each for node in level for each in _properties(root, node, name)]
        if not level:
            return None
        found = level[0]
    return found and resolve_references(root, found)


def is_required(root: Schema, path: Path) -> bool:
    """Return whether the schema itself requires a value at *path* in every event."""
    level: Sequence[Node] = [Node((), root)]
    for name in path:
        if not any(_requires(root, node, name, {}) for node in level):
            return False
        level = [each for node in level for each in _properties(root, node, name)]
    return True


def resolve_references(root: Schema, node: Node) -> Node:
    """Return the node that the references of *node* finally lead to; an empty one if there is no schema."""
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
    """Return the names of the fields and definitions on the path *at*.

    >>> names_on(("properties", "guests", "items", "properties", "name"))
    ['guests', 'name']
    """
    found, step = [], 0
    while step < len(at):
        if at[step] in _NAMING and step + 1 < len(at):
            found.append(at[step + 1])
        step += 2 if at[step] in NAMED or at[step] in COMBINED else 1
    return found


def _property_name(way: Pointer) -> str | None:
    return way[1] if way[0] == "properties" else None


def _properties(root: Schema, node: Node, name: str) -> list[Node]:
    """Return the subschemas of the property *name* of *node*, combinations included."""
    places = [place for place in _list_applicable(root, node) if name in _members(place)]
    return [Node((*place.at, "properties", name), _members(place)[name], name) for place in places]


def _members(node: Node) -> dict[str, Any]:
    properties = node.schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _list_applicable(root: Schema, node: Node) -> Iterator[Node]:
    """Yield the schemas that apply to the same value as *node*: itself, and its combinations."""
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        place = resolve_references(root, waiting.pop())
        if id(place.schema) not in seen:
            seen.add(id(place.schema))
            yield place
            waiting += [branch for method in reversed(COMBINED) for branch in reversed(_branches(place, method))]


def _requires(root: Schema, node: Node, name: str, known: dict[int, bool], depth: int = 0) -> bool:
    """Return whether *node* requires the property *name*: itself, by `allOf`, or in all its alternatives."""
    place = resolve_references(root, node)
    mark = id(place.schema)
    if mark in known or depth > _STEPS_MAX:
        return known.get(mark, False)
    known[mark] = False  # A cycle adds no requirement.
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


PROCESS_ID_FIELD: Final = "penstock/process-id-field"
"""The annotation with the path of the field that holds a business event's process id, such as `order.number`."""
ENTITY_KEY_FIELDS: Final = "penstock/entity-key-fields"
"""The annotation with the paths, separated by commas, of the fields that identify a data change's entity."""

_METADATA: Final = {
    *("eid", "occurred_at", "event_type", "partition", "parent_eids", "flow_id", "span_ctx"),
    *("received_at", "version", "published_by", "partition_compaction_key"),
}
_METADATA_TIMES: Final = frozenset(["occurred_at", "received_at"])
_ALWAYS: Final = frozenset(["eid", "occurred_at", "received_at", "event_type", "partition"])
_DATA_MEMBERS: Final = frozenset([("data_type",), ("data_op",)])
_TIME_FORMATS: Final = frozenset(["date-time", "date", "time"])


class EventField(NamedTuple):
    """A field of the whole event, as a definition names it."""

    text: str
    """Its path as the definition writes it."""
    path: Path
    """Its path in the payload, without `data`; or from `metadata` on, if it belongs to the category."""
    is_own: bool
    """Whether it is one of the members that the category adds."""
    node: Node | None
    """Its schema; None: the schema does not name it."""
    is_required: bool
    """Whether every event has it."""

    @property
    def is_known(self) -> bool:
        """True if the schema or the category names it."""
        return self.is_own or self.node is not None

    @property
    def is_time(self) -> bool:
        """True if it holds a moment, according to its format or its name."""
        if self.is_own:
            return self.path[-1] in _METADATA_TIMES
        said = self.node.schema.get("format") if self.node else None
        return said in _TIME_FORMATS if isinstance(said, str) else says_time(self.path[-1])


class Draft:
    """An unchecked definition in Nakadi's shape."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.definition = definition

    @cached_property
    def category(self) -> str:
        """Its category in lower case, which need not be a valid one."""
        return self.text("category").lower()

    @cached_property
    def strategy(self) -> str:
        """Its partition strategy, by default `random`."""
        return self.text("partition_strategy").lower() or "random"

    @cached_property
    def annotations(self) -> dict[str, str]:
        """The annotations that are strings."""
        given = self.definition.get("annotations")
        members = given.items() if isinstance(given, dict) else ()
        return {name: value for name, value in members if isinstance(name, str) and isinstance(value, str)}

    @cached_property
    def schema(self) -> Schema | None:
        """The parsed schema; None if it cannot be read."""
        given = self.definition.get("schema")
        text = given.get("schema") if isinstance(given, dict) else None
        if isinstance(text, str):
            try:
                text = decode(text)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                return None
        return text if isinstance(text, dict) else None

    @cached_property
    def key_fields(self) -> list[EventField]:
        """The fields of the partition key, in order."""
        return [self.field(text, in_payload=self.category == "data") for text in self.texts("partition_key_fields")]

    @cached_property
    def ordering_fields(self) -> list[EventField]:
        """The fields that order events, in order."""
        return [self.field(text) for text in self.texts("ordering_key_fields")]

    def text(self, member: str) -> str:
        """Return a string member without surrounding spaces; the empty string if it is not a string."""
        value = self.definition.get(member)
        return value.strip() if isinstance(value, str) else ""

    def texts(self, member: str) -> list[str]:
        """Return the strings in a list member."""
        value = self.definition.get(member)
        return [text for text in value if isinstance(text, str) and text] if isinstance(value, list) else []

    def field(self, text: str, *, in_payload: bool = False) -> EventField:
        """Return the field that *text* names: a path in the whole event, or *in_payload* alone.

        The payload of a data change is its member `data`; a path that is not found without `data` is searched with it.
        """
        path = key_path(text)
        if not in_payload and (own := self._own_field(text, path)):
            return own
        schema = self.schema or {}
        if self.category == "data" and not in_payload and path[0] == "data" and find(schema, path) is None:
            path = path[1:] or path
        return EventField(text, path, is_own=False, node=find(schema, path), is_required=is_required(schema, path))

    def _own_field(self, text: str, path: Path) -> EventField | None:
        """Return the field if it is one that the category adds."""
        if self.category in ("business", "data") and path[0] == "metadata":
            is_own = len(path) > 1 and path[1] in _METADATA
            return EventField(text, path, is_own, None, is_own and path[1] in _ALWAYS)
        if self.category == "data" and path in _DATA_MEMBERS:
            return EventField(text, path, is_own=True, node=None, is_required=True)
        return None
