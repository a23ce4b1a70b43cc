"""Converts schemas of event types, which are of draft 4, 6 or 7 of JSON Schema, to draft 7.

Sources: https://json-schema.org/draft-06/json-schema-release-notes and
https://json-schema.org/draft-07/json-schema-release-notes.
"""

from typing import Any, Final

import jsonschema_rs

from penstock.schema.parsing import dialect
from penstock.schema.traversal import HOLDING, NAMED, Schema, list_nodes, list_references, rebuild, steps

_DRAFT_4: Final = frozenset(
    [
        *("$ref", "title", "description", "default", "type", "enum", "format", "pattern", "required", "dependencies"),
        *("allOf", "anyOf", "oneOf", "not", "definitions", "properties", "patternProperties", "additionalProperties"),
        *("items", "additionalItems", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    ]
)
_DRAFT_6: Final = _DRAFT_4 | {"const", "contains", "propertyNames"}
_DRAFT_7: Final = _DRAFT_6 | {"if", "then", "else"}
_KEYWORDS: Final = {
    jsonschema_rs.Draft4Validator: _DRAFT_4,
    jsonschema_rs.Draft6Validator: _DRAFT_6,
    jsonschema_rs.Draft7Validator: _DRAFT_7,
}
_ANNOTATIONS: Final[dict[str, type]] = {
    "$comment": str,
    "contentEncoding": str,
    "contentMediaType": str,
    "deprecated": bool,
    "examples": list,
    "readOnly": bool,
    "writeOnly": bool,
}
"""Words that validate nothing, and the type of their values: kept from schemas of any draft."""


def convert_to_draft_seven(schema: Schema) -> Schema:
    """Return a schema of draft 7 that accepts the same values as *schema*, which has passed `check_schema`.

    Words are left out that mean nothing in the draft of *schema*, and values that tools could take for references.
    References stay, with their targets.

    >>> convert_to_draft_seven({"properties": {"n": {"minimum": 0, "exclusiveMinimum": True, "const": 1}}})
    {'properties': {'n': {'exclusiveMinimum': 0}}}
    """
    known = _KEYWORDS[dialect(schema)]
    named = HOLDING & {step for _, node in list_nodes(schema) if "$ref" in node for step in steps(node["$ref"])}
    """Words that may hold what a reference leads to."""

    def change(node: Schema) -> Schema:
        if "$ref" in node:  # Up to draft 7 the words beside it mean nothing.
            return {word: held for word, held in node.items() if word == "$ref" or word in named}
        kept = {word: held for word, held in node.items() if word in named or _is_kept(word, held, known)}
        if known is _DRAFT_4:
            _convert_bounds(kept)
        _rename_references(kept)
        return kept

    found: Schema = rebuild(schema, change)
    return found


def _is_kept(word: str, held: Any, known: frozenset[str]) -> bool:
    if word not in known and not isinstance(held, _ANNOTATIONS.get(word, ())):
        return False
    return word in HOLDING or not isinstance(held, dict | list) or not any(True for _ in list_references(held))


def _convert_bounds(node: Schema) -> None:
    """Replace the flags that make bounds exclusive in draft 4 by bounds."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if node.pop(exclusive, False) is True and bound in node:
            node[exclusive] = node.pop(bound)


_MEMBER: Final = r"^\$ref$"


def _rename_references(node: Schema) -> None:
    """Describe a member that is named `$ref` by a pattern, and leave out other schemas of that name."""
    for keyword in NAMED if not HOLDING.isdisjoint(node) else ():
        held = node.get(keyword)
        if isinstance(held, dict) and "$ref" in held:
            node[keyword] = {name: each for name, each in held.items() if name != "$ref"}
            if keyword == "properties":
                node["patternProperties"] = {**node.get("patternProperties", {}), _MEMBER: held["$ref"]}
