"""Reads and checks the schema that an owner gives to an event type, and closes it for the mode `compatible`.

Source: Nakadi's manual (https://nakadi.io/manual.html) and code; see docs/decisions/nakadi-contract.md.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

import jsonschema_rs
import msgspec

from penstock.errors import InvalidEvent
from penstock.schema.bounds import check_patterns, check_unfolding
from penstock.schema.json_text import check_depth, decode, explain_malformed, refuse_duplicate_keys
from penstock.schema.traversal import (
    COMBINED,
    Schema,
    abbreviate,
    check_references,
    children,
    follow_reference,
    format_pointer,
    list_nodes,
    make_schema_error,
    rebuild,
    target,
)

SCHEMA_CHARS_MAX: Final = 512 << 10
PLACES_CHARS_MAX: Final = 10_000_000
"""Upper bound of the characters of the pointers to all subschemas: validators keep all of them."""
PROHIBITED_MAX: Final = 20
"""Upper bound of the reported keywords that the mode `compatible` does not allow."""
_DIALECTS: Final = {
    "http://json-schema.org/schema": jsonschema_rs.Draft4Validator,
    "http://json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
}
_DRAFTS: Final = {
    jsonschema_rs.Draft4Validator: "draft 4",
    jsonschema_rs.Draft6Validator: "draft 6",
    jsonschema_rs.Draft7Validator: "draft 7",
}
_TYPE_NAMES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_WHY_CHARS: Final = 1_000

_VERSION: Final = frozenset(["openapi", "swagger"])
_OPENAPI: Final = frozenset(["info", "paths", "components", "definitions"])
"""Members of an OpenAPI document."""
_OBJECT: Final = frozenset(["properties", "required", "minProperties", "maxProperties"])
_ARRAY: Final = frozenset(["items", "minItems", "maxItems", "uniqueItems"])
_TYPING: Final = _OBJECT.union(
    _ARRAY,
    COMBINED,
    ("$ref", "type", "enum", "const", "not", "if", "additionalProperties", "patternProperties", "propertyNames"),
    ("dependencies", "additionalItems", "contains", "minLength", "maxLength", "pattern", "format"),
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
"""Keywords that restrict values."""
_COMPATIBLE: Final = _TYPING.difference(["not", "additionalItems", "const", "if", "contains", "propertyNames"]).union(
    ["id", "$schema", "title", "description", "default", "definitions"]
)
"""Keywords that the mode `compatible` allows."""
_CLOSED: Final = frozenset(["definitions", "properties", "dependencies", "items", *COMBINED])
"""Keywords that `close_schema` descends into."""


def parse_schema(text: str) -> Schema:
    """Parse a schema as strictly as events are parsed.

    Raises:
        InvalidEventType: it is not a JSON object, has a duplicate key, is larger than 512 KiB, or nested too deeply.

    >>> parse_schema('{"type": "object"}')
    {'type': 'object'}
    """
    if len(text) > SCHEMA_CHARS_MAX:
        raise make_schema_error(f"has {len(text)} characters, more than the {SCHEMA_CHARS_MAX} that a schema may have")
    try:
        raw = text.encode()
        schema = decode(raw)
        check_depth(raw, 1)
        refuse_duplicate_keys(raw, 1)
    except UnicodeEncodeError:
        raise make_schema_error("holds half of a surrogate pair, which is no character") from None
    except RecursionError:
        raise make_schema_error("is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise make_schema_error(f"is not valid JSON: {explain_malformed(raw, error)}") from None
    except InvalidEvent as error:
        raise make_schema_error(f"is not strict JSON: {error.reason}") from None
    if not isinstance(schema, dict):
        raise make_schema_error("must be a JSON object")
    return schema


def check_schema(schema: Schema, *, compatible: bool, business: bool) -> None:
    """Raise InvalidEventType unless *schema* is valid for an event type, by Nakadi's rules.

    References are never fetched, the time of patterns is linear in their text (RE2), and the work for an event is
    bounded: see `bounds.check_unfolding`.
    """
    if schema.get("type", "object") != "object":
        raise make_schema_error(f'must have the type "object" at its root, not {abbreviate(schema["type"])}')
    _check_dialect(schema)
    _check_places(schema)
    check_references(schema)
    check_patterns(schema)
    _check_keywords(schema)
    check_unfolding(schema)
    root = follow_reference(schema, schema)
    if business and isinstance(root, dict) and "metadata" in root.get("properties", {}):
        raise make_schema_error('must not define the property "metadata" of a business event: its category adds it')
    if compatible:
        prohibited = [*islice(_find_prohibited(schema), PROHIBITED_MAX)]
        if prohibited:
            raise make_schema_error(f"is not one for the mode compatible: {', '.join(prohibited)}")


def dialect(schema: Schema) -> type[jsonschema_rs.Validator]:
    """Return the validator class for *schema*: by its `$schema`, by default draft 4."""
    return _DIALECTS[str(schema.get("$schema", "http://json-schema.org/schema")).rstrip("#")]


def is_openapi(schema: Any) -> bool:
    """Return whether *schema* is a whole OpenAPI document, which as a JSON Schema accepts every value.

    >>> is_openapi({"openapi": "3.0.3", "info": {}, "paths": {}}), is_openapi({"properties": {"openapi": {}}})
    (True, False)
    """
    return isinstance(schema, dict) and bool(_VERSION & schema.keys()) and bool(_OPENAPI & schema.keys())


def is_empty(node: Schema) -> bool:
    """Return whether a node accepts every value.

    >>> is_empty({"title": "whatever"}), is_empty({"type": "string"})
    (True, False)
    """
    return not _TYPING & node.keys()


def names_all(node: Schema) -> bool:
    """Return whether `close_schema` closes *node* to properties that it does not name."""
    return is_empty(node) or "object" in _types(node) or bool(_OBJECT & node.keys())


def close_schema(node: Any) -> Any:
    """Return the schema that refuses all members that it does not name, as in the mode `compatible`.

    Every object gets `additionalProperties: false` and every array `additionalItems: false`, whatever its author has
    written, as in Nakadi. References are not followed: their targets are closed in place.

    >>> close_schema({"properties": {"name": {"type": "string"}}})
    {'properties': {'name': {'type': 'string'}}, 'additionalProperties': False}
    """
    made: list[Schema] = []

    def shut(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        copy = dict(node)
        if names_all(node):
            copy["additionalProperties"] = False
        if "array" in _types(node) or _ARRAY & node.keys():
            copy["additionalItems"] = False
        made.append(copy)
        return copy

    found = shut(node)
    while made:
        copy = made.pop()
        for keyword in _CLOSED & copy.keys():
            held = copy[keyword]
            if keyword == "items" or keyword in COMBINED:
                copy[keyword] = [shut(each) for each in held] if isinstance(held, list) else shut(held)
            elif isinstance(held, dict):
                copy[keyword] = {name: shut(each) for name, each in held.items()}  # A list of names is not a schema.
    return found


def is_reached(path: Sequence[str]) -> bool:
    """Return whether `close_schema` descends to the subschema at *path*.

    >>> is_reached(["properties", "a", "items", "0"]), is_reached(["patternProperties", "^a"])
    (True, False)
    """
    at = 0
    while at < len(path):
        if path[at] not in _CLOSED:
            return False
        is_one = path[at] == "items" and not "".join(path[at + 1 : at + 2]).isdecimal()
        at += 1 if is_one else 2
    return at == len(path)


def defines(root: Schema, path: Sequence[str]) -> bool:
    """Return whether *root* defines the member at *path*.

    >>> defines({"properties": {"order": {"properties": {"id": {}}}}}, ["order", "id"])
    True
    """
    found = [root]
    for step in path:
        found = [
            node["properties"][step] for node in _list_applicable(root, found) if step in node.get("properties", {})
        ]
    return bool(found)


def pointer_to(path: Sequence[str]) -> str:
    """Return the pointer to the member at *path* in a schema without references and combinations.

    >>> pointer_to(["order", "id"])
    '#/properties/order/properties/id'
    """
    return format_pointer(tuple(chain.from_iterable(("properties", name) for name in path)))


def _list_applicable(root: Schema, starts: list[Any]) -> Iterator[Schema]:
    """Yield the nodes that apply to the same value as *starts*, themselves included."""
    seen: set[int] = set()
    waiting = list(starts)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node.get("$ref"), str):
            waiting.append(target(root, node["$ref"]))
            continue
        yield node
        for method in COMBINED:
            waiting += node.get(method, [])


def _types(node: Schema) -> list[str]:
    types = node.get("type", [])
    return [types] if isinstance(types, str) else types


def _check_dialect(schema: Schema) -> None:
    given = schema.get("$schema")
    if "$schema" in schema and (not isinstance(given, str) or given.rstrip("#") not in _DIALECTS):
        raise make_schema_error(f"has a $schema that is not known here, {abbreviate(given)}: use draft 4, 6 or 7")


def _check_places(schema: Schema) -> None:
    chars = sum(map(len, chain.from_iterable(at for at, _ in list_nodes(schema))))
    if chars > PLACES_CHARS_MAX:
        raise make_schema_error(
            f"has names that are too long for what is nested in them: all places together have {chars} characters, "
            f"where {PLACES_CHARS_MAX} are allowed"
        )


def _check_keywords(schema: Schema) -> None:
    validator = dialect(schema)
    try:
        validator(make_loadable(schema), pattern_options=jsonschema_rs.RegexOptions(), offline=True)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        draft = "which its $schema asks for" if "$schema" in schema else "which it is without a $schema"
        why = _explain_invalid(error)[:_WHY_CHARS]
        raise make_schema_error(f"is no JSON Schema of {_DRAFTS[validator]}, {draft}, at {why}") from None


def _explain_invalid(error: Exception) -> str:
    """Return the place and the reason of the error in a schema."""
    if not isinstance(error, jsonschema_rs.ValidationError):
        return f"#: {str(error).splitlines()[0]}"
    found: jsonschema_rs.ValidationError | None = error
    while found is not None:  # A keyword with alternatives, such as `items`: report the error within.
        error, found = found, _inner_error(found)
    at, name = format_pointer(tuple(map(str, error.instance_path))), error.kind.name
    if name == "format":
        return f"{at}: {abbreviate(error.instance)} is a pattern for RE2, but none of JSON Schema (ECMA 262)"
    if name == "anyOf" and error.instance_path[-1:] == ["type"]:
        return f"{at}: {abbreviate(error.instance)} is not one of {', '.join(_TYPE_NAMES)}, nor a list of some"
    return f"{at}: {error.message}"


def _inner_error(error: jsonschema_rs.ValidationError) -> jsonschema_rs.ValidationError | None:
    branches = error.kind.as_dict()["context"] if error.kind.name == "anyOf" else ()
    deeper = (each for branch in branches for each in branch if len(each.instance_path) > len(error.instance_path))
    return next(deeper, None)


def make_loadable(schema: Schema) -> Schema:
    """Return an equivalent schema that validators accept: without ids and without empty `required`.

    References are JSON pointers, and an id would change their base. A `$schema` below the root is ignored, since a
    schema has one dialect.
    """

    def change(node: Schema) -> Schema:
        for name in ("id", "$id", "$schema"):
            if isinstance(node.get(name), str):
                del node[name]
        if node.get("required") == []:
            del node["required"]
        return node

    found: Schema = rebuild(schema, change)
    return {"$schema": schema["$schema"]} | found if "$schema" in schema else found


def _find_prohibited(schema: Schema) -> Iterator[str]:
    """Yield the violations of Nakadi's meta-schema, a restricted draft 4."""
    for at, node in list_nodes(schema):
        for keyword in sorted(node.keys() - _COMPATIBLE):
            yield f"{format_pointer(at)}: extraneous key [{keyword}] is not permitted"
        for way, child in children(node):
            if isinstance(child, bool) and way[0] not in ("additionalProperties", "additionalItems"):
                yield f"{format_pointer((*at, *way))}: expected type: JSONObject, found: Boolean"
