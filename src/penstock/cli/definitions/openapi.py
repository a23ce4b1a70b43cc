"""Turns a schema object of an OpenAPI document into plain JSON Schema, one object at a time.

OpenAPI 3.0 (and Swagger 2) describe schemas in a dialect of draft 4 of JSON Schema, with a few words of their own;
OpenAPI 3.1 in draft 2020-12, of which draft 7 has most. Keywords without an equivalent are left out, and reported.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from penstock.schema.parsing import is_openapi
from penstock.schema.traversal import Pointer, Schema, format_pointer

_DRAFT_4: Final = frozenset(
    [
        *("title", "description", "default", "type", "format", "enum", "allOf", "anyOf", "oneOf", "not", "required"),
        *(
            "multipleOf",
            "maximum",
            "exclusiveMaximum",
            "minimum",
            "exclusiveMinimum",
            "maxLength",
            "minLength",
            "pattern",
        ),
        *("items", "maxItems", "minItems", "uniqueItems", "properties", "additionalProperties", "maxProperties"),
        *("minProperties",),
    ]
)
_DRAFT_7: Final = _DRAFT_4.union(
    [
        *("const", "contains", "if", "then", "else", "propertyNames", "patternProperties", "dependencies", "items"),
        *("additionalItems", "contentEncoding", "contentMediaType"),
    ]
)
_ELSEWHERE: Final = frozenset(["definitions", "$defs", "$schema", "$id", "id"])
"""Words that are dropped in silence: schemas that are referred to are carried along."""
_ONLY_TOLD: Final = frozenset(["description", "summary", "title"])
EXAMPLE: Final = "openapi.yaml#/components/schemas/Order"
_SCHEMAS: Final[tuple[Pointer, ...]] = (("components", "schemas"), ("definitions",))
"""The places of schemas in a document of OpenAPI 3, and of Swagger 2."""
_NO_SCHEMAS: Final = frozenset([(), ("components",), *_SCHEMAS, ("paths",), ("info",)])
_TOLD_MAX: Final = 10
WHY_LEFT_OUT: Final = {"nullable": "it has a meaning beside a `type` alone"}


class Plain(NamedTuple):
    """A schema object in plain JSON Schema, its parts still as they were."""

    schema: Schema
    left_out: list[str]
    """Words that were left out; `WHY_LEFT_OUT` has reasons that are not plain."""


Dialect = Callable[[Schema], Plain]


def dialect_of(document: Any) -> tuple[Dialect, str | None] | None:
    """Return the conversion of the schemas in an OpenAPI *document*, and their `$schema`; None if it is none.

    >>> dialect_of({"openapi": "3.0.3"})
    (<function from_3_0 at ...>, None)
    """
    if not isinstance(document, dict):
        return None
    version = str(document.get("openapi", ""))
    if version.startswith("3.0") or str(document.get("swagger", "")).startswith("2"):
        return from_3_0, None
    return (from_3_1, "http://json-schema.org/draft-07/schema#") if version.startswith("3.") else None


def why_no_schema(document: Any, at: Pointer = (), file: str = "") -> str | None:
    """Return why the value at *at* in an OpenAPI *document* is no schema, and a remedy; None if it may be one.

    Args:
        document: Any document; None is returned for one that is not OpenAPI.
        at: The place of the supposed schema.
        file: The document as a reference names it; empty if there is no reference yet.

    >>> why_no_schema({"openapi": "3.1.0", "components": {"schemas": {"Order": {}}}}, file="api.yaml")
    'is a whole OpenAPI document: name one of its schemas, as in api.yaml#/components/schemas/Order; it has Order'
    """
    if at not in _NO_SCHEMAS or not is_openapi(document):
        return None
    what = (
        f"holds what is no schema, {format_pointer(at)} of an OpenAPI document" if at else "is a whole OpenAPI document"
    )
    named = [(*where, name) for where in _SCHEMAS for name in _names(document, where)]
    if not named:
        return f"{what}: name one schema in such a document, as in {EXAMPLE}; this one has none"
    more = f" and {len(named) - _TOLD_MAX} more" if len(named) > _TOLD_MAX else ""
    has = ", ".join(each[-1] for each in named[:_TOLD_MAX]) + more
    return f"{what}: name one of its schemas, as in {file or 'openapi.yaml'}{format_pointer(named[0])}; it has {has}"


def _names(document: Any, where: Pointer) -> list[str]:
    for step in where:
        document = document.get(step) if isinstance(document, dict) else None
    return [*document] if isinstance(document, dict) else []


def from_3_0(node: Schema) -> Plain:
    """Turn a schema object of OpenAPI 3.0, or of Swagger 2.

    >>> from_3_0({"type": "string", "nullable": True, "example": "x"})
    Plain(schema={'type': ['string', 'null']}, left_out=['example'])
    """
    if "$ref" in node:  # What stands beside a reference has no meaning.
        return Plain({"$ref": node["$ref"]}, sorted(node.keys() - {"$ref"} - _ONLY_TOLD))
    schema = {word: value for word, value in node.items() if word in _DRAFT_4}
    left_out = sorted(node.keys() - schema.keys() - _ELSEWHERE - {"nullable"})
    if node.get("nullable") is True:
        if isinstance(given := schema.get("type"), str):
            schema["type"] = [given, "null"]
        else:
            left_out.append("nullable")
    return Plain(schema, left_out)


def from_3_1(node: Schema) -> Plain:
    """Turn a schema object of OpenAPI 3.1.

    >>> from_3_1({"prefixItems": [{"type": "string"}], "items": False, "deprecated": True})
    Plain(schema={'items': [{'type': 'string'}], 'additionalItems': False}, left_out=['deprecated'])
    """
    schema = {word: value for word, value in node.items() if word in _DRAFT_7}
    known = set(schema)
    if isinstance(first := node.get("prefixItems"), list):
        rest = schema.pop("items", None)
        schema["items"] = first
        if rest is not None:
            schema["additionalItems"] = rest
        known.add("prefixItems")
    for word in ("dependentRequired", "dependentSchemas"):
        if isinstance(given := node.get(word), dict):
            before = schema.get("dependencies")
            schema["dependencies"] = (before if isinstance(before, dict) else {}) | given
            known.add(word)
    left_out = sorted(node.keys() - known - _ELSEWHERE - {"$ref"})
    if "$ref" in node:
        beside = {word: value for word, value in schema.items() if word not in _ONLY_TOLD}
        schema = {"allOf": [{"$ref": node["$ref"]}], **beside} if beside else {"$ref": node["$ref"]}
        if isinstance(beside.get("allOf"), list):
            schema["allOf"] = [{"$ref": node["$ref"]}, *beside["allOf"]]
    return Plain(schema, left_out)
