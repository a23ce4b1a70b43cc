"""The JSON schemas of event types, as they are enforced."""

from typing import Any, Final

Schema = dict[str, Any]
"""A JSON Schema as it was decoded."""

COMBINED: Final = ("allOf", "anyOf", "oneOf")
_OBJECT: Final = frozenset(["properties", "required", "minProperties", "maxProperties"])
_ARRAY: Final = frozenset(["items", "minItems", "maxItems", "uniqueItems"])
_TYPING: Final = _OBJECT.union(
    _ARRAY,
    COMBINED,
    ("$ref", "type", "enum", "const", "not", "if", "additionalProperties", "patternProperties", "propertyNames"),
    ("dependencies", "additionalItems", "contains", "minLength", "maxLength", "pattern", "format"),
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
"""Keywords that say something of what a value may be."""


def is_empty(node: Schema) -> bool:
    """Tell whether a node lets every value pass.

    >>> is_empty({"title": "whatever"}), is_empty({"type": "string"})
    (True, False)
    """
    return not _TYPING & node.keys()


def names_all(node: Schema) -> bool:
    """Tell whether `closed` lets no property of *node* pass that it does not name."""
    return is_empty(node) or "object" in _types(node) or bool(_OBJECT & node.keys())


def closed(node: Any) -> Any:
    """Return a schema that lets nothing pass that it does not name, as the mode `compatible` enforces it.

    Every object gets `additionalProperties: false` and every array `additionalItems: false`, whatever its author says
    (digest of Nakadi's contract, 2.3). References are not followed, since what they lead to is closed where it stands.

    >>> closed({"properties": {"name": {"type": "string"}}})
    {'properties': {'name': {'type': 'string'}}, 'additionalProperties': False}
    """
    if not isinstance(node, dict):
        return node
    shut = {name: _closed_within(name, value) for name, value in node.items()}
    if names_all(node):
        shut["additionalProperties"] = False
    if "array" in _types(node) or _ARRAY & node.keys():
        shut["additionalItems"] = False
    return shut


def _types(node: Schema) -> list[str]:
    types = node.get("type", [])
    return [types] if isinstance(types, str) else types


def _closed_within(keyword: str, value: Any) -> Any:
    if keyword in ("definitions", "properties", "dependencies") and isinstance(value, dict):
        return {name: closed(each) for name, each in value.items()}  # A dependency on names is a list, and stays it.
    if keyword in (*COMBINED, "items") and isinstance(value, list):
        return [closed(each) for each in value]
    return closed(value) if keyword == "items" else value
