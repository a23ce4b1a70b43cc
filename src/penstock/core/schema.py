"""The schema that an owner gives to an event type: what it must be, and how `compatible` closes it."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import jsonschema_rs
import msgspec
import re2

from penstock.core.event import check_depth, refuse_duplicate_keys, why_malformed
from penstock.core.unfolding import check_unfolding
from penstock.core.walk import COMBINED, MISSING, Schema, mapped, nodes, shown, target
from penstock.errors import InvalidEvent, InvalidEventType

SCHEMA_CHARS_MAX: Final = 1 << 20
FIELD: Final = "schema.schema"
_DIALECTS: Final = {
    "http://json-schema.org/schema": jsonschema_rs.Draft4Validator,
    "http://json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
}
_SHOWN_CHARS: Final = 200

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
_COMPATIBLE: Final = _TYPING.difference(["not", "additionalItems", "const", "if", "contains", "propertyNames"]).union(
    ["id", "$schema", "title", "description", "default", "definitions"]
)
"""Keywords that the mode `compatible` allows."""


def parse_schema(text: str) -> Schema:
    """Read a schema as strictly as events are read (digest of Nakadi's contract, 2.4).

    Raises:
        InvalidEventType: it is no JSON object, holds a key twice, is larger than 1 MiB or nested too deeply.

    >>> parse_schema('{"type": "object"}')
    {'type': 'object'}
    """
    if len(text) > SCHEMA_CHARS_MAX:
        raise _wrong(f"has {len(text)} characters, more than the {SCHEMA_CHARS_MAX} that a schema may have")
    try:
        raw = text.encode()
        schema = msgspec.json.decode(raw)
        check_depth(raw, 1)
        refuse_duplicate_keys(raw, 1)
    except UnicodeEncodeError:
        raise _wrong("holds half of a surrogate pair, which is no character") from None
    except RecursionError:
        raise _wrong("is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise _wrong(f"is not valid JSON: {why_malformed(raw, error)}") from None
    except InvalidEvent as error:
        raise _wrong(f"is not strict JSON: {error.fields['reason']}") from None
    if not isinstance(schema, dict):
        raise _wrong("must be a JSON object")
    return schema


def check_schema(schema: Schema, *, compatible: bool, business: bool) -> None:
    """Raise InvalidEventType unless an event type can have *schema* (digest of Nakadi's contract, 2.4).

    Nothing is ever fetched, patterns take a time that grows with their text alone (RE2), and no event can make what
    has been let in here run for ever: see `check_unfolding`.
    """
    if schema.get("type", "object") != "object":
        raise _wrong(f'must have the type "object" at its root, not {_told(schema["type"])}')
    _check_dialect(schema)
    _check_references(schema)
    _check_patterns(schema)
    _check_keywords(schema)
    check_unfolding(schema)
    if business and "metadata" in schema.get("properties", {}):
        raise _wrong('must not define the property "metadata" of a business event: the hub does')
    if compatible:
        prohibited = [*_prohibited(schema)]
        if prohibited:
            raise _wrong(f"is not one for the mode compatible: {', '.join(prohibited)}")


def dialect(schema: Schema) -> type[jsonschema_rs.Validator]:
    """Return who validates by *schema*: by its `$schema`, draft 4 unless it says otherwise."""
    return _DIALECTS[str(schema.get("$schema", "http://json-schema.org/schema")).rstrip("#")]


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


def defines(root: Schema, path: Sequence[str]) -> bool:
    """Tell whether *root* names the member at *path*.

    >>> defines({"properties": {"order": {"properties": {"id": {}}}}}, ["order", "id"])
    True
    """
    found = [root]
    for step in path:
        found = [node["properties"][step] for node in _applied(root, found) if step in node.get("properties", {})]
    return bool(found)


def _applied(root: Schema, starts: list[Any]) -> Iterator[Schema]:
    """Yield the nodes that describe the same value as *starts*, themselves included."""
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


def _closed_within(keyword: str, value: Any) -> Any:
    if keyword in ("definitions", "properties", "dependencies") and isinstance(value, dict):
        return {name: closed(each) for name, each in value.items()}  # A dependency on names is a list, and stays it.
    if keyword in (*COMBINED, "items") and isinstance(value, list):
        return [closed(each) for each in value]
    return closed(value) if keyword == "items" else value


def _check_dialect(schema: Schema) -> None:
    given = schema.get("$schema")
    if "$schema" in schema and (not isinstance(given, str) or given.rstrip("#") not in _DIALECTS):
        raise _wrong(f"has a $schema that is not known here, {_told(given)}: use draft 4, 6 or 7")


def _check_references(schema: Schema) -> None:
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


def _check_patterns(schema: Schema) -> None:
    for at, node in nodes(schema):
        patterns = [node["pattern"]] if isinstance(node.get("pattern"), str) else []
        if isinstance(node.get("patternProperties"), dict):
            patterns += node["patternProperties"]
        for pattern in patterns:
            try:
                re2.compile(pattern)
            except re2.error as error:
                why = error.args[0].decode() if isinstance(error.args[0], bytes) else error
                raise _wrong(
                    f"has a pattern at {shown(at)} that is not taken, {_told(pattern)}: {why} "
                    "(RE2 has no look-around and no back-references)"
                ) from None


def _check_keywords(schema: Schema) -> None:
    try:
        dialect(schema)(loadable(schema), pattern_options=jsonschema_rs.RegexOptions(), offline=True)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        at = getattr(error, "instance_path", ())
        raise _wrong(f"is no JSON Schema at {shown(tuple(map(str, at)))}: {str(error).splitlines()[0]}") from None


def loadable(node: Any) -> Any:
    """Return a schema that means the same and that validators take: without ids and without empty `required`.

    References are all by place, and an id would move what they are counted from.
    """
    if not isinstance(node, dict):
        return node
    copy = mapped(node, loadable)
    for name in ("id", "$id"):
        if isinstance(copy.get(name), str):
            del copy[name]
    if copy.get("required") == []:
        del copy["required"]
    return copy


def _prohibited(schema: Schema) -> Iterator[str]:
    for at, node in nodes(schema):
        for keyword in node.keys() - _COMPATIBLE:
            yield f"{shown(at)}: extraneous key [{keyword}] is not permitted"


def _wrong(reason: str) -> InvalidEventType:
    return InvalidEventType(field=FIELD, reason=reason)


def _told(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:_SHOWN_CHARS]
