"""Says a JSON Schema of today (2020-12) in the words that a registry takes in the mode `compatible` (draft-04).

Those are the keywords in `ALLOWED` (digest of Nakadi's contract, 2.4), and of the many ways in which a schema can say
the same it chooses one, so that schemas of the same things are the same.
"""

import math
from typing import Any, Final

import msgspec

from penstock.core.walk import COMBINED, Schema, nodes, steps

_KEPT: Final = (
    *("title", "description", "type", "format", "pattern", "minimum", "maximum", "multipleOf", "minLength"),
    *("maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
)
_TYPES: Final = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
    list: "array",
    dict: "object",
}
_STRANGE_FORMATS: Final = ("binary", "base64url", "time")
"""Nobody checks the first two. The third needs a zone, which times of day mostly have not."""
_NULL: Final = {"type": "null"}
_ANY_NAME: Final = ".*"
ANYTHING: Final[Schema] = {"patternProperties": {_ANY_NAME: {}}}
"""Lets everything pass. What says nothing at all, `{}`, would in the mode `compatible` be closed to all members."""


def draft_four(schema: Schema) -> Schema:
    """Return *schema* in draft-04; what it refers to at its root stands there itself.

    It is open, as the event guidelines ask for ("Avoid additionalProperties in event type definitions"). Members of
    whatever name are said by `patternProperties`, since `additionalProperties` is closed in the mode `compatible`.

    >>> draft_four({"type": "object", "properties": {"n": {"const": 1}}, "additionalProperties": False})
    {'type': 'object', 'properties': {'n': {'enum': [1], 'type': 'integer'}}}
    """
    definitions = schema.get("$defs", {}) | schema.get("definitions", {})
    made = {name: _node(each) for name, each in definitions.items()}
    root = _node({word: value for word, value in schema.items() if word not in ("$defs", "definitions")})
    for _ in made:
        if "$ref" not in root:
            break
        root = dict(made[_name(root["$ref"])])
    return with_definitions(root, made)


def with_definitions(root: Schema, definitions: dict[str, Schema]) -> Schema:
    """Return *root* with those of *definitions* that it leads to."""
    wanted: list[str] = []
    waiting = [root]
    while waiting:
        for _, node in nodes(waiting.pop()):
            name = _name(node["$ref"]) if "$ref" in node else None
            if name is not None and name not in wanted:
                wanted.append(name)
                waiting.append(definitions[name])
    own = {word: value for word, value in root.items() if word != "definitions"}
    return own | ({"definitions": {name: definitions[name] for name in sorted(wanted)}} if wanted else {})


def _name(reference: str) -> str:
    return steps(reference)[-1]


def _node(given: Any) -> Schema:
    if given is True or not isinstance(given, dict):
        return dict(ANYTHING)
    if "$ref" in given:  # What stands beside it has no meaning in draft-04.
        return {"$ref": given["$ref"].replace("#/$defs/", "#/definitions/")}
    made = {word: given[word] for word in _KEPT if word in given}
    if made.get("format") in _STRANGE_FORMATS:
        del made["format"]
    made |= _values(given) | _bounds(given) | _members(given) | _items(given)
    for method in COMBINED:
        if method in given:
            made = _combined(
                made, "anyOf" if "discriminator" in given else method, [_node(each) for each in given[method]]
            )
    if (default := given.get("default")) is not None and _is_plain(default):
        made["default"] = default
    if not made.keys() - {"title", "description", "default"}:
        made |= ANYTHING
    return made


def _values(given: Schema) -> Schema:
    if "const" not in given and "enum" not in given:
        return {}
    values = [given["const"]] if "const" in given else given["enum"]
    values = sorted(values, key=lambda value: (value is None, msgspec.json.encode(value)))
    types = list(dict.fromkeys(_TYPES[type(value)] for value in values))
    return {"enum": values, "type": types[0] if len(types) == 1 else types}


def _bounds(given: Schema) -> Schema:
    """Say exclusive bounds as draft-04 does: by a flag beside the bound."""
    made: Schema = {}
    for bound, exclusive, stricter in (("minimum", "exclusiveMinimum", max), ("maximum", "exclusiveMaximum", min)):
        limit = given.get(exclusive)
        if isinstance(limit, bool) or limit is None:
            made |= {exclusive: True} if limit and bound in given else {}
        elif stricter(limit, given.get(bound, limit)) == limit:
            made |= {bound: limit, exclusive: True}
    return made


def _members(given: Schema) -> Schema:
    made: Schema = {}
    if "properties" in given:
        made["properties"] = {name: _node(each) for name, each in given["properties"].items()}
    if given.get("required"):
        made["required"] = list(given["required"])
    patterns = dict(given.get("patternProperties", {}))
    rest = given.get("additionalProperties", False)
    if isinstance(rest, dict) or (rest is True and "properties" not in given):
        patterns[_ANY_NAME] = rest
    if patterns:
        made["patternProperties"] = {
            name: _node(each) if each not in ({}, True) else {} for name, each in patterns.items()
        }
    return made


def _items(given: Schema) -> Schema:
    if "prefixItems" in given:
        count = len(given["prefixItems"])
        items = {"items": [_node(each) for each in given["prefixItems"]]} if count else {}
        return {**items, "minItems": count, "maxItems": count}
    if given.get("type") == "array" or "items" in given:
        return {"items": _node(given.get("items", True))}
    return {}


def _combined(made: Schema, method: str, branches: list[Schema]) -> Schema:
    """Return what lets pass what *made* does and what *method* makes of *branches*."""
    if method == "anyOf":
        branches = [within for each in branches for within in (each["anyOf"] if each.keys() == {"anyOf"} else [each])]
    if len(branches) == 1:
        return branches[0] if "$ref" in branches[0] else branches[0] | made
    if method == "allOf":
        return made | {method: branches}
    others = sorted((each for each in branches if each != _NULL), key=msgspec.json.encode)
    nullable = len(others) < len(branches)
    if all(each.keys() == {"type"} for each in others):
        types = list(dict.fromkeys(name for each in others for name in _listed(each["type"])))
        return made | {"type": [*types, *(["null"] if nullable else [])]}
    if nullable and len(others) == 1 and "type" in others[0] and "$ref" not in others[0]:
        [other] = others
        values = {"enum": [*other["enum"], None]} if "enum" in other else {}
        return other | values | made | {"type": [*_listed(other["type"]), "null"]}
    return made | {method: [*others, *([_NULL] if nullable else [])]}


def _listed(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
