"""What a node of a schema is about: the kinds that Nakadi's comparison tells apart."""

from collections.abc import Mapping
from typing import Any, Final

from penstock.core.attribute import without_neutral
from penstock.core.schema import is_empty
from penstock.core.walk import COMBINED, Schema

EMPTY: Final = ("empty",)
REFERENCE: Final = ("reference",)
NARROWED_TO: Final = frozenset(["string", "number", "integer", "boolean", "array", "null"])
"""The kinds to which an empty node is narrowed, all but objects, which are compared."""
_TYPICAL: Final[Mapping[str, frozenset[str]]] = {
    "object": frozenset(["properties", "required", "minProperties", "maxProperties", "additionalProperties"])
    | {"patternProperties", "dependencies", "propertyNames"},
    "array": frozenset(["items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"]),
    "string": frozenset(["minLength", "maxLength", "pattern", "format"]),
    "number": frozenset(["minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"]),
}


def node_of(schema: Any) -> Schema:
    """Return a schema as an object, be it true or false.

    >>> node_of(True), node_of(False)
    ({}, {'not': {}})
    """
    if isinstance(schema, dict):
        return schema
    return {} if schema is True else {"not": {}}


def kind_of(node: Schema) -> object:
    """Return what a node is about: a type, several, a reference, a combination and what is beside it, or anything.

    Its type may be told by its other keywords, where they say something.

    >>> kind_of({"minLength": 1}), kind_of({"minLength": 0}), kind_of({"type": ["string", "null"]})
    ('string', ('empty',), ('null', 'string'))
    """
    if "$ref" in node:
        return REFERENCE
    if any(method in node for method in COMBINED):
        return "combined", kind_of({name: value for name, value in node.items() if name not in COMBINED})
    if (types := node.get("type")) is not None:
        types = sorted(types) if isinstance(types, list) else [types]
        return types[0] if len(types) == 1 else tuple(types)
    told = without_neutral(node)
    for kind, keywords in _TYPICAL.items():
        if keywords & told.keys():
            return kind
    return EMPTY if is_empty(told) else "values"
